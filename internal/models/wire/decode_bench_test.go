package wire

import (
	"bytes"
	"fmt"
	"testing"

	"stoa/internal/base/stoa"
)

// BenchmarkDecode decodes a stream of a thousand small deltas.
func BenchmarkDecode(b *testing.B) {
	const deltas = 1000
	repeat := func(head, delta, tail string) []byte {
		var buf bytes.Buffer
		buf.WriteString(head)
		for i := range deltas {
			fmt.Fprintf(&buf, delta, fmt.Sprintf(" word%d", i))
		}
		buf.WriteString(tail)
		return buf.Bytes()
	}
	for wire, body := range map[string][]byte{
		"messages": repeat("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n",
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"),
		"gemini": repeat("", "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":%q}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":5,\"totalTokenCount\":199,\"promptTokensDetails\":[{\"modality\":\"TEXT\",\"tokenCount\":9}],\"thoughtsTokenCount\":185},\"modelVersion\":\"gemini-3-pro-preview\",\"responseId\":\"bH6LaZW8Fp_3nsEPqtaSwQ4\"}\n\n",
			"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}]},\"finishReason\":\"STOP\"}]}\n\n"),
		"responses": repeat("", "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":5,\"item_id\":\"msg_01830d662ab3856501693c32183a488190a612c410a0a39823\",\"output_index\":0,\"content_index\":0,\"delta\":%q,\"logprobs\":[],\"obfuscation\":\"XVAoDXXbkE\"}\n\n",
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":9,\"output_tokens\":9}}}\n\n"),
		"chat": repeat("", "data: {\"id\":\"chatcmpl-D8Z5oo6uDh67AD85p73ksdT1KxhE0\",\"object\":\"chat.completion.chunk\",\"created\":1770933892,\"model\":\"gpt-4.1-nano-2025-04-14\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_de604bd877\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"plX\"}\n\n",
			"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n"),
	} {
		b.Run(wire, func(b *testing.B) {
			codec, route := codecs[wire], stoa.Route{Wire: wire, Model: "m", Dialect: "openai"}
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for ev, err := range codec.Decode(bytes.NewReader(body), route, Want{Tools: true}) {
					if err != nil {
						b.Fatal(err)
					}
					if ev.Kind == stoa.Delta {
						n++
					}
				}
				if n != deltas {
					b.Fatalf("%d deltas", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*deltas), "ns/event")
			b.SetBytes(int64(len(body)))
		})
	}
}

// BenchmarkEncode encodes a conversation of forty turns.
func BenchmarkEncode(b *testing.B) {
	call := stoa.Call{Instructions: "Be brief.", MaxOutputTokens: 1000}
	for i := range 40 {
		role := stoa.RoleUser
		if i%2 == 1 {
			role = stoa.RoleAssistant
		}
		call.Messages = append(call.Messages, stoa.TextMessage(role, string(bytes.Repeat([]byte("some words of a turn, \"quoted\" and not. "), 20))))
	}
	for wire, codec := range codecs {
		b.Run(wire, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := codec.Encode(call, stoa.Route{Wire: wire, Model: "m"}, "k")
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(req.Body)))
			}
		})
	}
}
