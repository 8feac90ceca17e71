// Drives a live Stoa with Google's library. The server is given by STOA_URL, STOA_API_KEY, and
// STOA_POOR_KEY: the key of an account without credits. It has all extensions on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, FunctionCallingConfigMode, GoogleGenAI, Type } from "@google/genai";

const url = process.env.STOA_URL;
const client = (apiKey = process.env.STOA_API_KEY, options = {}) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url + "/api" }, ...options });
const weather = { name: "weather", description: "The weather of a city.", parameters: { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ["city"] } };
// Two calls at once and, when their results are there, a text.
const twoCalls = 'think: 40\ncall: weather {"city":"Oslo"}\ncall: weather {"city":"Rome"}\nsay: Both are sunny';

// The models of the four wires that the fake vendors speak.
const models = ["alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"];

for (const apiVersion of ["v1", "v1beta"]) {
  test(`a whole reply and a stream, ${apiVersion}`, async () => {
    const ai = client(undefined, { apiVersion });
    const r = await ai.models.generateContent({ model: "auto", contents: "say: Hello", config: { systemInstruction: "Be brief." } });
    assert.equal(r.text, "Hello");
    assert.equal(r.candidates[0].finishReason, "STOP");
    assert.equal(r.usageMetadata.totalTokenCount, r.usageMetadata.promptTokenCount + r.usageMetadata.candidatesTokenCount);
    assert.match(r.responseId, /^resp_/);
    let text = "", last;
    for await (const c of await ai.models.generateContentStream({ model: "auto", contents: "say: a b c 🙂" })) {
      text += c.text ?? "";
      last = c;
    }
    assert.equal(text, "a b c 🙂");
    assert.equal(last.candidates[0].finishReason, "STOP");
    assert.ok(last.usageMetadata.totalTokenCount > 0);
    assert.ok((await ai.models.countTokens({ model: "auto", contents: "Hello" })).totalTokens > 0);
    const names = [];
    for await (const m of await ai.models.list()) names.push(m.name);
    assert.equal(names[0], "models/auto");
    assert.equal((await ai.models.get({ model: "beta-3.8-flash" })).name, "models/beta-3.8-flash");
  });
}

for (const model of models) {
  test(`three rounds of parallel calls in a chat, streamed, on ${model}`, async () => {
    const chat = client().chats.create({ model, config: { tools: [{ functionDeclarations: [weather] }], thinkingConfig: { includeThoughts: true, thinkingLevel: "HIGH" } } });
    for (let round = 0; round < 3; round++) {
      const calls = [];
      for await (const c of await chat.sendMessageStream({ message: twoCalls })) calls.push(...(c.functionCalls ?? []));
      assert.deepEqual(calls.map((c) => c.args.city), ["Oslo", "Rome"]);
      assert.equal(new Set(calls.map((c) => c.id)).size, 2);
      const results = calls.map((c) => ({ functionResponse: { id: c.id, name: c.name, response: { output: c.args.city + " is sunny" } } }));
      assert.equal((await chat.sendMessage({ message: results })).text, "Both are sunny");
    }
  });
  test(`the library runs a tool itself, on ${model}`, async () => {
    let city;
    const tool = { tool: async () => ({ functionDeclarations: [weather] }), callTool: async (list) => list.map((c) => { city = c.args.city; return { functionResponse: { name: c.name, response: { result: "sunny" } } }; }) };
    const r = await client().models.generateContent({ model, contents: 'call: weather {"city":"Oslo"}\nsay: It is sunny', config: { tools: [tool] } });
    assert.equal(r.text, "It is sunny");
    assert.equal(city, "Oslo");
  });
}

test("a forced call, and a schema", async () => {
  const r = await client().models.generateContent({
    model: "beta-3.8-flash", contents: 'call: weather {"city":"Oslo"}',
    config: { tools: [{ functionDeclarations: [weather] }], toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: ["weather"] } } },
  });
  assert.equal(r.functionCalls[0].args.city, "Oslo");
  for (const config of [{ responseSchema: weather.parameters }, { responseJsonSchema: { type: "object", properties: { city: { type: "string" } } } }]) {
    const j = await client().models.generateContent({ model: "beta-3.8-flash", contents: 'say: {"city":"Oslo"}', config: { responseMimeType: "application/json", ...config } });
    assert.deepEqual(JSON.parse(j.text), { city: "Oslo" });
  }
});

test("errors", async () => {
  const create = (of, request) => of.models.generateContent({ model: "auto", contents: "x", ...request });
  const is = (status, text) => (e) => e instanceof ApiError && e.status === status && e.message.includes(text);
  await assert.rejects(create(client("sk_wrong")), is(401, "UNAUTHENTICATED"));
  await assert.rejects(create(client(process.env.STOA_POOR_KEY)), is(402, "insufficient_quota"));
  await assert.rejects(create(client(), { model: "nope" }), is(404, "NOT_FOUND"));
  await assert.rejects(create(client(), { config: { temperature: 9 } }), is(400, "generationConfig.temperature"));
  await assert.rejects(create(client(), { model: "alpha-haiku-4-5", contents: "fail: 529" }), is(503, "UNAVAILABLE"));
  let text = "";
  await assert.rejects(async () => {
    for await (const c of await client().models.generateContentStream({ model: "alpha-haiku-4-5", contents: "tokens: 20\nfail: 500 after 3" })) text += c.text ?? "";
  }, is(500, "INTERNAL"));
  assert.notEqual(text, "");
});
