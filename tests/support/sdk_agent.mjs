#!/usr/bin/env node
// An agent written with the official ACP SDK, which checks every message against its schemas, in
// both directions. It obeys the first word of its prompt: "write" asks and writes, "stall" goes on
// until it is cancelled, "files" asks for what nobody offered, "fail" fails.

import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";

import { agent, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk";

const sessions = new Map();

/** A session's turn: what it may tell and ask. */
class Turn {
  constructor(client, sessionId) {
    this.client = client;
    this.sessionId = sessionId;
    this.cancelled = new Promise((resolve) => (this.cancel = resolve));
  }
  tell(update) {
    return this.client.notify(methods.client.session.update, { sessionId: this.sessionId, update });
  }
  say(text, sessionUpdate = "agent_message_chunk") {
    return this.tell({ sessionUpdate, content: { type: "text", text } });
  }
}

const deeds = {
  async write(turn, cwd) {
    const toolCall = { toolCallId: "call-1", title: "notes.md", kind: "edit", status: "pending" };
    const content = [{ type: "diff", path: `${cwd}/notes.md`, oldText: null, newText: "hello\n" }];
    await turn.tell({ sessionUpdate: "tool_call", ...toolCall, content, rawInput: { text: "hello" } });
    const { outcome } = await turn.client.request(methods.client.session.requestPermission, {
      sessionId: turn.sessionId,
      toolCall: { toolCallId: "call-1" },
      options: [
        { optionId: "yes", kind: "allow_once", name: "Allow" },
        { optionId: "no", kind: "reject_once", name: "Reject" },
      ],
    });
    if (outcome.outcome === "cancelled") return "cancelled";
    const allowed = outcome.optionId === "yes";
    if (allowed) await writeFile(`${cwd}/notes.md`, "hello\n");
    const status = allowed ? "completed" : "failed";
    await turn.tell({ sessionUpdate: "tool_call_update", toolCallId: "call-1", status });
    await turn.say(allowed ? "written" : "left alone");
    return "end_turn";
  },
  async stall(turn) {
    await turn.say("waiting");
    await turn.cancelled;
    return "cancelled";
  },
  async files(turn, cwd) {
    const asked = turn.client.request(methods.client.fs.readTextFile, {
      sessionId: turn.sessionId,
      path: `${cwd}/notes.md`,
    });
    await turn.say(await asked.then(() => "read", (error) => `refused ${error.code}`));
    return "end_turn";
  },
  async fail() {
    throw new RequestError(-32603, "the model is gone", { status: 503 });
  },
};

agent({ name: "sdk-agent" })
  .onRequest(methods.agent.initialize, ({ params }) => ({
    protocolVersion: params.protocolVersion,
    agentInfo: { name: "sdk-agent", version: "1.0.0" },
    agentCapabilities: {},
  }))
  .onRequest(methods.agent.session.new, ({ params }) => {
    const sessionId = randomUUID();
    sessions.set(sessionId, { cwd: params.cwd });
    return { sessionId };
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const session = sessions.get(params.sessionId);
    const turn = (session.turn = new Turn(client, params.sessionId));
    await turn.say("let me see", "agent_thought_chunk");
    const entries = [{ content: "obey", priority: "high", status: "in_progress" }];
    await turn.tell({ sessionUpdate: "plan", entries });
    return { stopReason: await deeds[params.prompt[0].text.split(/\s/)[0]](turn, session.cwd) };
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => {
    sessions.get(params.sessionId).turn.cancel();
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
