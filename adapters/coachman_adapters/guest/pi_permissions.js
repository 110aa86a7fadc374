// Runs inside pi, which has no permissions of its own: a tool that does more than look
// waits here until coachman's adapter has answered the dialog. An error in here blocks the tool.

const LOOKS = new Set(["read", "grep", "find", "ls"]);
const TITLE = "coachman: permission";

export default function (pi) {
	const always = new Set();

	pi.on("tool_call", async (event, ctx) => {
		if (LOOKS.has(event.toolName) || always.has(event.toolName)) return undefined;
		const asked = { call: event.toolCallId, tool: event.toolName, input: event.input };
		// Without the signal an abort would wait for the dialog that nobody answers any more.
		const answer = await ctx.ui.input(TITLE, JSON.stringify(asked), { signal: ctx.signal });
		const { kind, message } = answer === undefined ? {} : JSON.parse(answer);
		if (kind === "allow_always") always.add(event.toolName);
		if (kind === "allow_once" || kind === "allow_always") return undefined;
		return { block: true, reason: message || "This was not allowed." };
	});
}
