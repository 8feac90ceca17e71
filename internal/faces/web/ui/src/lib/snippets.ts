// A call as code in several languages.

import type { Call, Message } from "./responses";

const single = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

// simple returns a single message as a string.
function simple(call: Call): Record<string, unknown> {
  const lone = call.input.length === 1 && call.input[0]!.role === "user" && typeof call.input[0]!.content === "string";
  return { ...call, input: lone ? call.input[0]!.content : call.input };
}

// isPlain reports whether a call contains only text messages.
function isPlain(call: Call): call is Call & { input: (Message & { content: string })[] } {
  return !call.tools && !call.text && call.input.every((item) => !("type" in item) && typeof item.content === "string");
}

export function curl(call: Call, base: string): string {
  return [
    `curl --no-buffer "${base}/api/v1/responses"`,
    `  --header "Authorization: Bearer $STOA_API_KEY"`,
    `  --json ${single(JSON.stringify({ ...simple(call), stream: true }, null, 2))}`,
  ].join(" \\\n");
}

export function javascript(call: Call, base: string): string {
  return `import OpenAI from "openai";

const client = new OpenAI({
  baseURL: "${base}/api/v1",
  apiKey: process.env.STOA_API_KEY,
});

const stream = await client.responses.create(${JSON.stringify({ ...simple(call), stream: true }, null, 2)});

for await (const event of stream) {
  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);
}
`;
}

// pythonValue returns a JSON value in Python syntax, indented.
function pythonValue(value: unknown, indent: string): string {
  if (value === null) return "None";
  if (Array.isArray(value)) return `[\n${value.map((v) => indent + "    " + pythonValue(v, indent + "    ")).join(",\n")},\n${indent}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, v]) => `${JSON.stringify(name)}: ${pythonValue(v, indent)}`).join(", ")}}`;
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value) ?? "None"; // Python supports all escapes of JSON
}

export function python(call: Call, base: string): string {
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(base + "/api/v1")}, api_key=os.environ["STOA_API_KEY"])

stream = client.responses.create(
${Object.entries(simple(call)).map(([name, value]) => `    ${name}=${pythonValue(value, "    ")},`).join("\n")}
    stream=True,
)
for event in stream:
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)
`;
}

// goString returns a Go string literal: Go supports all escapes of JSON.
const goString = (text: string) => JSON.stringify(text);

export function go(call: Call, base: string): string {
  if (!isPlain(call)) return goFrom(call, base);
  const lone = call.input.length === 1 && call.input[0]!.role === "user";
  const imports = ['"context"', '"fmt"', '"log"', '"os"', "", '"github.com/openai/openai-go/v3"', '"github.com/openai/openai-go/v3/option"', '"github.com/openai/openai-go/v3/responses"'];
  if (call.reasoning) imports.push('"github.com/openai/openai-go/v3/shared"');
  const members = [`Model: ${goString(call.model)},`];
  if (call.instructions) members.push(`Instructions: openai.String(${goString(call.instructions)}),`);
  if (call.max_output_tokens) members.push(`MaxOutputTokens: openai.Int(${call.max_output_tokens}),`);
  if (call.temperature !== undefined) members.push(`Temperature: openai.Float(${call.temperature}),`);
  if (call.reasoning) members.push(`Reasoning: shared.ReasoningParam{Effort: ${goString(call.reasoning.effort)}},`);
  if (lone) {
    members.push(`Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(${goString(call.input[0]!.content)})},`);
  } else {
    members.push("Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{");
    for (const m of call.input) {
      const role = m.role === "user" ? "User" : "Assistant";
      members.push(`\tresponses.ResponseInputItemParamOfMessage(${goString(m.content)}, responses.EasyInputMessageRole${role}),`);
    }
    members.push("}},");
  }
  return `package main

import (
${imports.map((i) => (i ? "\t" + i : "")).join("\n")}
)

func main() {
	client := openai.NewClient(
		option.WithBaseURL(${goString(base + "/api/v1")}),
		option.WithAPIKey(os.Getenv("STOA_API_KEY")),
	)
	stream := client.Responses.NewStreaming(context.Background(), responses.ResponseNewParams{
${members.map((m) => "\t\t" + m).join("\n")}
	})
	for stream.Next() {
		fmt.Print(stream.Current().Delta)
	}
	if err := stream.Err(); err != nil {
		log.Fatal(err)
	}
}
`;
}

// goFrom returns a call in Go with parameters given as JSON.
function goFrom(call: Call, base: string): string {
  return `package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

func main() {
	client := openai.NewClient(
		option.WithBaseURL(${goString(base + "/api/v1")}),
		option.WithAPIKey(os.Getenv("STOA_API_KEY")),
	)
	params := param.Override[responses.ResponseNewParams](json.RawMessage(${goString(JSON.stringify(simple(call)))}))
	stream := client.Responses.NewStreaming(context.Background(), params)
	for stream.Next() {
		fmt.Print(stream.Current().Delta)
	}
	if err := stream.Err(); err != nil {
		log.Fatal(err)
	}
}
`;
}
