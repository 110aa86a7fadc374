// node run.mjs DIRECTORY PROMPT [AGENT]: starts a run that asks, follows it, allows what it asks
// for, and exits with 0 where it succeeded.

import { Client, CoachmanError, events } from "./coachman.mjs";

const [dir, prompt, agent = "demo"] = process.argv.slice(2);
const client = await Client.connect();
const { run, handle } = await client.call("run.start", { dir, prompt, agent, permissions: "ask" });
console.log(`${handle} started`);

for await (const event of events(run)) {
  switch (event.type) {
    case "agent.message_chunk":
      console.log(JSON.stringify(event.text));
      break;
    case "permission.requested":
      await allow(event.request, event.question);
      break;
    case "run.ended":
      console.log(`${handle} ${event.outcome}`);
      process.exitCode = event.outcome === "succeeded" ? 0 : 1;
  }
}
client.close();

/** @param {string} request @param {string} question */
async function allow(request, question) {
  try {
    const { kind } = await client.call("permission.answer", { run, request, kind: "allow_once" });
    console.log(`${JSON.stringify(question)} ${kind}`);
  } catch (error) {
    // Somebody else may have been quicker; then theirs is the answer.
    if (!(error instanceof CoachmanError && error.name === "Conflict")) throw error;
  }
}
