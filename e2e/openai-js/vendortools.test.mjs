// Drives a live Stoa that has all extensions on, with the tools that OpenAI and Anthropic have
// defined and a client runs. The server is given by STOA_URL and STOA_API_KEY.
import assert from "node:assert/strict";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { betaMemoryTool } from "@anthropic-ai/sdk/helpers/beta/memory";
import { BetaLocalFilesystemMemoryTool } from "@anthropic-ai/sdk/tools/memory/node";
import { Agent, applyPatchTool, computerTool, OpenAIResponsesModel, Runner, setTracingDisabled, shellTool } from "@openai/agents";
import OpenAI from "openai";

setTracingDisabled(true);
const url = process.env.STOA_URL;
const apiKey = process.env.STOA_API_KEY;
const client = () => new OpenAI({ baseURL: url + "/api/v1", apiKey });
// The models of the four wires that the fake vendors speak.
const models = ["alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"];
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

// run lets an agent make one call and answer; done has what the tool did.
async function run(model, agent, prompt, stream) {
  const runner = new Runner({ modelProvider: { getModel: () => new OpenAIResponsesModel(client(), model) } });
  const result = await runner.run(new Agent({ name: "a", model, ...agent }), prompt + "\nsay: All done", { stream });
  if (stream) {
    for await (const _ of result) { /* to the end */ }
    await result.completed;
  }
  return result;
}

for (const model of models) {
  for (const stream of [false, true]) {
    test(`@openai/agents: applyPatchTool on ${model}, stream ${stream}`, async () => {
      const done = [];
      const editor = { createFile: async (o) => (done.push(o), { status: "completed", output: "made" }), updateFile: async () => {}, deleteFile: async () => {} };
      const r = await run(model, { tools: [applyPatchTool({ editor })] }, 'call: apply_patch {"type":"create_file","path":"a.txt","diff":"+a"}', stream);
      assert.equal(r.finalOutput, "All done");
      assert.deepEqual(done.map((o) => [o.type, o.path, o.diff]), [["create_file", "a.txt", "+a"]]);
    });

    test(`@openai/agents: shellTool on ${model}, stream ${stream}`, async () => {
      const done = [];
      const shell = { run: async (action) => (done.push(...action.commands), { output: [{ stdout: "a.txt", stderr: "", outcome: { type: "exit", exitCode: 0 } }] }) };
      const r = await run(model, { tools: [shellTool({ shell })] }, 'call: shell {"commands":["ls","pwd"]}', stream);
      assert.equal(r.finalOutput, "All done");
      assert.deepEqual(done, ["ls", "pwd"]);
    });

    test(`@openai/agents: computerTool on ${model}, stream ${stream}`, async () => {
      const done = [];
      const act = (name) => async (...args) => { done.push([name, ...args]); };
      const computer = Object.fromEntries(["click", "doubleClick", "drag", "keypress", "move", "scroll", "type", "wait"].map((name) => [name, act(name)]));
      Object.assign(computer, { environment: "linux", dimensions: [800, 600], screenshot: async () => dot });
      const r = await run(model, { tools: [computerTool({ computer })] }, 'call: computer {"actions":[{"type":"click","button":"left","x":3,"y":4}],"action":{"type":"click","button":"left","x":3,"y":4}}', stream);
      assert.equal(r.finalOutput, "All done");
      assert.deepEqual(done[0].slice(0, 3), ["click", 3, 4]);
    });
  }

  test(`openai: a stream with a shell call on ${model}`, async () => {
    const stream = client().responses.stream({ model, input: 'call: shell {"commands":["ls"]}', tools: [{ type: "shell" }], store: false });
    const kinds = [];
    for await (const ev of stream) {
      if (ev.item?.type === "shell_call") {
        kinds.push(ev.type);
        assert.deepEqual(ev.item.action.commands, ["ls"]);
      }
    }
    assert.deepEqual(kinds, ["response.output_item.added", "response.output_item.done"]);
    assert.equal((await stream.finalResponse()).output.at(-1).type, "shell_call");
  });

  test(`@anthropic-ai/sdk: toolRunner whose tools change on ${model}`, async () => {
    const anthropic = new Anthropic({ apiKey, baseURL: url + "/api" });
    const done = [];
    const runnable = (name) => ({ name, description: name, input_schema: { type: "object" }, run: async () => (done.push(name), "ran"), parse: (input) => input });
    const runner = anthropic.beta.messages.toolRunner({
      model, max_tokens: 900, tools: [runnable("first")],
      messages: [{ role: "user", content: "call: first {}\nsay: Done" }],
    });
    let steps = 0;
    for await (const message of runner) {
      if (steps++ === 0) {
        runner.addTools(runnable("second"));
      } else if (steps === 2) {
        assert.equal(message.content.at(-1).text, "Done");
        runner.removeTools("first");
        runner.pushMessages({ role: "assistant", content: message.content }, { role: "user", content: "call: second {}\nsay: Done again" });
      }
    }
    assert.equal((await runner.done()).content.at(-1).text, "Done again");
    assert.deepEqual(done, ["first", "second"]);
  });

  test(`@anthropic-ai/sdk: toolRunner with memory, bash and a text editor on ${model}`, async () => {
    const anthropic = new Anthropic({ apiKey, baseURL: url + "/api" });
    const dir = await mkdtemp(join(tmpdir(), "memory-"));
    const done = [];
    const runnable = (declaration) => ({ ...declaration, run: async (input) => (done.push([declaration.name, input.command]), "ran"), parse: (input) => input });
    const tools = [
      betaMemoryTool(await BetaLocalFilesystemMemoryTool.init(dir)),
      runnable({ type: "bash_20250124", name: "bash" }),
      runnable({ type: "text_editor_20250728", name: "str_replace_based_edit_tool" }),
    ];
    const last = await anthropic.beta.messages.toolRunner({
      model, max_tokens: 900, tools,
      messages: [{ role: "user", content: 'call: memory {"command":"create","path":"/memories/a.txt","file_text":"noted"}\ncall: bash {"command":"ls"}\ncall: str_replace_based_edit_tool {"command":"view","path":"/a"}\nsay: All done' }],
    });
    assert.equal(last.content.at(-1).text, "All done");
    assert.deepEqual(done, [["bash", "ls"], ["str_replace_based_edit_tool", "view"]]);
    assert.equal(await readFile(join(dir, "memories/a.txt"), "utf8"), "noted");
  });
}
