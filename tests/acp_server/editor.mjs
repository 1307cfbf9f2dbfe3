// An editor on the official TypeScript library: `node editor.mjs PLAN`, where PLAN is JSON with the library's `sdk`, the
// agent's `command`, the workspace's `cwd`, the `answers` to its questions and the `prompts`. Prints what it saw.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const plan = JSON.parse(process.argv[2]);
const acp = await import(pathToFileURL(plan.sdk).href);
const updates = [];
const asked = [];
const ended = [];

const agent = spawn(plan.command[0], plan.command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const code = new Promise((resolve) => agent.once("exit", resolve));
await acp
  .client({ name: "editor" })
  .onNotification(acp.methods.client.session.update, ({ params }) => void updates.push(params.update))
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    asked.push(params);
    return { outcome: { outcome: "selected", optionId: plan.answers.shift() } };
  })
  .connectWith(acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (context) => {
    await context.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    const { sessionId } = await context.request(acp.methods.agent.session.new, { cwd: plan.cwd, mcpServers: [] });
    for (const text of plan.prompts) {
      const prompt = [{ type: "text", text }];
      ended.push((await context.request(acp.methods.agent.session.prompt, { sessionId, prompt })).stopReason);
    }
  });
agent.stdin.end();
process.stdout.write(JSON.stringify({ updates, asked, ended, code: await code }));
