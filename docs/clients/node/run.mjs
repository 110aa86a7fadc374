// node run.mjs DIRECTORY PROMPT [AGENT]: starts a run that asks, follows it, allows what it asks
// for, and exits with 0 where it succeeded.

import { Client, CoachmanError, events } from "./coachman.mjs";

const [dir, prompt, agent = "demo"] = process.argv.slice(2);
if (dir === undefined || prompt === undefined) {
  console.error("usage: node run.mjs DIRECTORY PROMPT [AGENT]");
  process.exit(64);
}
const client = await Client.connect().catch(giveUp);
try {
  await follow();
} catch (error) {
  giveUp(error);
}
client.close();

async function follow() {
  const started = await client.call("run.start", { dir, prompt, agent, permissions: "ask" });
  const { run, handle } = started;
  console.log(`${handle} started`);
  for await (const event of events(run)) {
    switch (event.type) {
      case "agent.message_chunk":
        console.log(JSON.stringify(event.text));
        break;
      case "permission.requested":
        await allow(run, event.request, event.question);
        break;
      case "run.ended":
        console.log(`${handle} ${event.outcome}`);
        process.exitCode = event.outcome === "succeeded" ? 0 : 1;
    }
  }
}

/** @param {string} run @param {string} request @param {string} question */
async function allow(run, request, question) {
  try {
    const { kind } = await client.call("permission.answer", { run, request, kind: "allow_once" });
    console.log(`${JSON.stringify(question)} ${kind}`);
  } catch (error) {
    // Somebody else may have been quicker; then theirs is the answer.
    if (!(error instanceof CoachmanError && error.name === "Conflict")) throw error;
  }
}

/** One line for what people can do something about. @param {any} error @returns {never} */
function giveUp(error) {
  if (error instanceof CoachmanError) {
    const { hint } = error.data;
    console.error(hint ? `${error.message}; ${hint}` : error.message);
    process.exit(1);
  }
  if (error.code === "ENOENT" || error.code === "ECONNREFUSED") {
    console.error(`cannot connect: no daemon listens on ${error.address}; coachman daemon start`);
    process.exit(69);
  }
  console.error(`cannot follow the run: ${error.message}`);
  process.exit(1);
}
