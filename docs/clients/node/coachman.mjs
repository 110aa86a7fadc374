// A client of coachman's daemon for Node.js 20 and newer, without dependencies.
// The types of coachman.d.ts are made from the daemon's OpenRPC document.

import { createConnection } from "node:net";
import { homedir } from "node:os";
import { setTimeout as pause } from "node:timers/promises";

/** @import { ErrorData, Event, Methods } from "./coachman.d.ts" */

/** What the daemon refused. `data.name` is stable and meant to be compared. */
export class CoachmanError extends Error {
  /** @param {{ code: number, message: string, data: ErrorData }} error */
  constructor({ code, message, data }) {
    super(message);
    this.name = data.name;
    this.code = code;
    this.data = data;
  }
}

/** The daemon hung up before it answered; whether it acted is unknown. */
export class ConnectionLostError extends Error {}

/** Where the daemon listens; the command line looks in the same places. */
export function socketPath(env = process.env) {
  if (env.COACHMAN_SOCKET) return env.COACHMAN_SOCKET;
  if (env.XDG_RUNTIME_DIR && !env.COACHMAN_STATE_DIR) {
    return `${env.XDG_RUNTIME_DIR}/coachman/control.sock`;
  }
  const base = env.XDG_STATE_HOME || `${homedir()}/.local/state`;
  return `${env.COACHMAN_STATE_DIR || `${base}/coachman`}/control.sock`;
}

/** @param {string} path @returns {Promise<import("node:net").Socket>} */
function open(path) {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path, () => resolve(socket.off("error", reject)));
    socket.once("error", reject);
  });
}

/** @param {unknown} id @param {string} method @param {unknown} params */
const request = (id, method, params) =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n";

/** The messages that come, as they are asked for: who is slow is sent no more than fits.
 * @param {import("node:net").Socket} socket @returns {AsyncGenerator<any>} */
async function* messages(socket) {
  let rest = "";
  for await (const chunk of socket.setEncoding("utf8")) {
    const lines = (chunk.includes("\n") ? rest + chunk : chunk).split("\n");
    rest = lines.length > 1 ? "" : rest;
    rest += lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

/** One connection for any number of calls at once. */
export class Client {
  #socket;
  #waiting = new Map();
  #last = 0;

  /** @param {string} [path] */
  static async connect(path = socketPath()) {
    return new Client(await open(path));
  }

  /** @param {import("node:net").Socket} socket connected */
  constructor(socket) {
    this.#socket = socket;
    this.#read();
  }

  /** @template {keyof Methods} M
   * @param {M} method @param {Methods[M]["params"]} params
   * @param {{ signal?: AbortSignal }} [options] aborting cancels the request, never a run
   * @returns {Promise<Methods[M]["result"]>} */
  call(method, params, { signal } = {}) {
    const id = ++this.#last;
    signal?.addEventListener("abort", () => this.#send("$/cancelRequest", { id }), { once: true });
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) throw new ConnectionLostError(`cannot call ${method}: hung up`);
      this.#waiting.set(id, { resolve, reject });
      this.#socket.write(request(id, method, params));
    });
  }

  /** Hang up. Runs go on. */
  close() {
    this.#socket.destroy();
  }

  /** @param {string} method @param {unknown} params a notification: nothing answers it */
  #send(method, params) {
    this.#socket.write(request(undefined, method, params));
  }

  async #read() {
    let why = "the daemon hung up";
    try {
      for await (const { id, result, error } of messages(this.#socket)) {
        const call = this.#waiting.get(id);
        this.#waiting.delete(id);
        if (error) call?.reject(new CoachmanError(error));
        else call?.resolve(result);
      }
    } catch (error) {
      why = String(error);
    }
    for (const call of this.#waiting.values()) call.reject(new ConnectionLostError(why));
    this.#socket.destroy();
  }
}

/** A run's events, each once and in order, from the first (or behind `cursor`) to its end.
 *
 * On a connection of its own. When the daemon goes, it waits up to `patienceMs` for the next one
 * and goes on behind the last event.
 * @param {string} run
 * @param {{ path?: string, cursor?: string, types?: string[], dir?: string, patienceMs?: number }} [options]
 * @returns {AsyncGenerator<Event>} */
export async function* events(run, options = {}) {
  const { path = socketPath(), patienceMs = 30_000, ...params } = options;
  for (let lostAt = 0; ; await pause(100)) {
    try {
      const socket = await open(path);
      socket.write(request(1, "event.subscribe", { run, ...params }));
      for await (const { method, result, error, params: told } of messages(socket)) {
        if (error) throw new CoachmanError(error);
        params.cursor = (told ?? result).cursor ?? params.cursor;
        if (method === "event.event") yield told.event;
        if (method === "event.end" && told.reason !== "interrupted") return;
        lostAt = 0;
      }
    } catch (error) {
      const passes = error instanceof CoachmanError ? error.data.retryable : isLoss(error);
      if (!passes || params.cursor === undefined) throw error;
    }
    lostAt ||= Date.now();
    if (Date.now() - lostAt > patienceMs) throw new ConnectionLostError("the daemon stays away");
  }
}

/** @param {any} error */
const isLoss = (error) => ["ECONNREFUSED", "ECONNRESET", "ENOENT", "EPIPE"].includes(error?.code);
