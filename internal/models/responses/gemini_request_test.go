package responses

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
)

func TestAGeminiRequestIsRead(t *testing.T) {
	t.Parallel()
	signature := signatureOf([]string{"stoa1.AA", "stoa1.BB"})
	for _, tc := range []struct{ name, body, want string }{
		{
			"a question", `{"contents":[{"parts":[{"text":"Hi"}]}]}`,
			`{"model":"m","stream":true,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}]}`,
		},
		{
			"settings", `{"model":"models/x","strictModel":true,"serviceTier":"standard","systemInstruction":{"role":"user","parts":[{"text":"a"},{"text":"b"}]},"generationConfig":{"temperature":0.5,"topP":1,"topK":3,"maxOutputTokens":9,"stopSequences":["x"],"candidateCount":1,"presencePenalty":1,"frequencyPenalty":2,"responseModalities":["TEXT"],"responseMimeType":"text/plain","thinkingConfig":{"includeThoughts":true,"thinkingBudget":5000}},"safetySettings":[{"category":"c","threshold":"BLOCK_NONE"}],"contents":[{"parts":[{"text":"q"}]}]}`,
			`{"model":"m","stream":true,"strict_model":true,"temperature":0.5,"top_p":1,"top_k":3,"max_output_tokens":9,"stop":["x"],"presence_penalty":1,"frequency_penalty":2,"reasoning":{"effort":"medium","summary":"auto"},"input":[{"type":"message","role":"system","content":"a\n\nb"},{"role":"user","content":"q"}]}`,
		},
		{
			"snake case", `{"system_instruction":{"parts":[{"text":"s"}]},"generation_config":{"max_output_tokens":9,"thinking_config":{"thinking_level":"LOW","thinking_budget":0}},"contents":[{"parts":[{"inline_data":{"mime_type":"text/plain","data":"Pz8_Pz8-"}}]}]}`,
			`{"model":"m","stream":true,"max_output_tokens":9,"reasoning":{"effort":"low"},"input":[{"type":"message","role":"system","content":"s"},{"type":"message","role":"user","content":[{"type":"input_file","file_data":"data:text/plain;base64,Pz8/Pz8+"}]}]}`,
		},
		{
			"tools", `{"tools":[{"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":{"type":"object"}},{"name":"g"}]},{"google_search":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","g"]}},"contents":[]}`,
			`{"model":"m","stream":true,"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"}},{"type":"function","name":"g"},{"type":"googleSearch"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]},"input":[]}`,
		},
		{
			"one function", `{"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},"contents":[]}`,
			`{"model":"m","stream":true,"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"},"input":[]}`,
		},
		{
			"a schema", `{"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","propertyOrdering":["b"],"required":["a"],"properties":{"a_b":{"type":"STRING","nullable":true,"enum":["x"],"format":"enum"},"n":{"type":"ARRAY","minItems":"1","items":{"any_of":[{"type":"INTEGER"},{"type":"NUMBER"}]}}}}},"contents":[]}`,
			`{"model":"m","stream":true,"text":{"format":{"type":"json_schema","name":"reply","schema":{"type":"object","required":["a"],"properties":{"a_b":{"type":["string","null"],"enum":["x",null]},"n":{"type":"array","minItems":1,"items":{"anyOf":[{"type":"integer"},{"type":"number"}]}}}}}},"input":[]}`,
		},
		{
			"any JSON", `{"generationConfig":{"responseMimeType":"application/json"},"contents":[]}`,
			`{"model":"m","stream":true,"text":{"format":{"type":"json_object"}},"input":[]}`,
		},
		{
			"media", `{"contents":[{"role":"user","parts":[{"text":"See"},{"fileData":{"mimeType":"image/png","fileUri":"https://a.b/c.png"}},{"fileData":{"fileUri":"https://a.b/c.pdf"}},{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0=","displayName":"f.pdf"}}]}]}`,
			`{"model":"m","stream":true,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"See"},{"type":"input_image","image_url":"https://a.b/c.png"},{"type":"input_file","file_url":"https://a.b/c.pdf"},{"type":"input_file","filename":"f.pdf","file_data":"data:application/pdf;base64,JVBERi0="}]}]}`,
		},
		{
			"calls without ids, in order", `{"contents":[{"role":"model","parts":[{"text":"t"},{"functionCall":{"name":"f","args":{"a": 1}}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f"}}]},{"role":"function","parts":[{"functionResponse":{"name":"g","response":{"output":"G"}}},{"functionResponse":{"name":"f","response":{"error":"E"}}},{"functionResponse":{"id":"made-up","name":"f","response":{"result":{"x":1},"more":2}}}]}]}`,
			`{"model":"m","stream":true,"input":[{"type":"message","role":"assistant","content":[{"type":"input_text","text":"t"}]},{"type":"function_call","call_id":"gemini_call_0","name":"f","arguments":"{\"a\":1}"},{"type":"function_call","call_id":"gemini_call_1","name":"g","arguments":"{}"},{"type":"function_call","call_id":"gemini_call_2","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"gemini_call_1","output":"G"},{"type":"function_call_output","call_id":"gemini_call_0","is_error":true,"output":"E"},{"type":"function_call_output","call_id":"gemini_call_2","output":"{\"result\":{\"x\":1},\"more\":2}"}]}`,
		},
		{
			"calls with ids", `{"contents":[{"role":"model","parts":[{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"b","name":"f"}}]},{"parts":[{"functionResponse":{"id":"b","name":"f","response":{"output":{"y":[]}}}},{"functionResponse":{"name":"f","response":{},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]}}]}]}`,
			`{"model":"m","stream":true,"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call","call_id":"b","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"b","output":"{\"y\":[]}"},{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"{}"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}]}]}`,
		},
		{
			"reasoning", `{"contents":[{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"id":"a","name":"f"},"thoughtSignature":"` + signature + `"},{"text":"","thoughtSignature":"Zm9yZWlnbg=="}]},{"parts":[{"functionResponse":{"id":"a","name":"f","response":{"output":"x"}}}]}]}`,
			`{"model":"m","stream":true,"input":[{"type":"reasoning","summary":[],"encrypted_content":"stoa1.AA"},{"type":"reasoning","summary":[],"encrypted_content":"stoa1.BB"},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"x"}]}`,
		},
		{
			"records of other tools", `{"contents":[{"role":"model","parts":[{"executableCode":{"code":"x"}},{"text":"t"}]}]}`,
			`{"model":"m","stream":true,"input":[{"type":"executableCode_call"},{"type":"message","role":"assistant","content":[{"type":"input_text","text":"t"}]}]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			readsLike(t, ParseGemini("m", true, false), tc.body, tc.want)
		})
	}
}

func TestAGeminiCountMayHaveTheWholeCall(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"contents":[{"parts":[{"text":"Hi"}]}]}`, `{"generateContentRequest":{"model":"models/m","contents":[{"parts":[{"text":"Hi"}]}]}}`} {
		readsLike(t, ParseGeminiCount("m"), body, `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}]}`)
	}
}

func TestAGeminiRequestIsRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                                  "contents",
		`{"contents":[],"cachedContent":"x"}`: "cachedContent",
		`{"contents":[{"role":"bot","parts":[]}]}`:                                                        "contents[0].role",
		`{"contents":[{"role":"user"}]}`:                                                                  "contents[0].parts",
		`{"contents":[],"safety_settings":[{"category":"c","threshold":"BLOCK_LOW_AND_ABOVE"}]}`:          "safety_settings[0].threshold",
		`{"contents":[],"generationConfig":{"candidateCount":2}}`:                                         "generationConfig.candidateCount",
		`{"contents":[],"generationConfig":{"responseLogprobs":true}}`:                                    "generationConfig.responseLogprobs",
		`{"contents":[],"generationConfig":{"responseModalities":["TEXT","IMAGE"]}}`:                      "generationConfig.responseModalities[1]",
		`{"contents":[],"generationConfig":{"responseMimeType":"text/x.enum"}}`:                           "generationConfig.responseMimeType",
		`{"contents":[],"generationConfig":{"responseMimeType":"text/plain","responseSchema":{}}}`:        "generationConfig.responseMimeType",
		`{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":-2}}}`:                     "generationConfig.thinkingConfig.thinkingBudget",
		`{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingLevel":"HUGE"}}}`:                  "generationConfig.thinkingConfig.thinkingLevel",
		`{"contents":[],"tools":[{"computerUse":{}}]}`:                                                    "tools[0].computerUse",
		`{"contents":[],"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}}`:                          "toolConfig.functionCallingConfig.mode",
		`{"contents":[{"parts":[{"functionCall":{"name":"f"}}]}]}`:                                        "contents[0].parts[0].functionCall",
		`{"contents":[{"parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`:                      "contents[0].parts[0].functionResponse.name",
		`{"contents":[{"parts":[{"functionResponse":{"name":"f","willContinue":true}}]}]}`:                "contents[0].parts[0].functionResponse.willContinue",
		`{"contents":[{"parts":[{"inlineData":{"mimeType":"audio/mp3","data":"AA=="}}]}]}`:                "contents[0].parts[0].inlineData.mimeType",
		`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png"}}]}]}`:                              "contents[0].parts[0].inlineData.data",
		`{"contents":[{"parts":[{"fileData":{"fileUri":"gs://a/b"}}]}]}`:                                  "contents[0].parts[0].fileData.fileUri",
		`{"contents":[],"systemInstruction":{"parts":[{"inlineData":{}}]}}`:                               "systemInstruction.parts[0]",
		`{"contents":[],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"minItems":"x"}}]}]}`: "tools[0].functionDeclarations[0].parameters.minItems",
	} {
		_, err := ParseGemini("m", false, false)([]byte(body), otherOptions)
		if e := stoa.AsError(err); err == nil || e.Param != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestAGeminiErrorNamesTheMemberOfTheClient(t *testing.T) {
	t.Parallel()
	parse := ParseGemini("m", false, false)
	got, err := parse([]byte(`{"contents":[{"parts":[{"text":"x"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]},{"googleSearch":{}}],"seed":1,"generationConfig":{"seed":2,"mediaResolution":"x"},"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}}`), otherOptions)
	if err != nil {
		t.Fatal(err)
	}
	if at := got.media[0].at("type"); at != "contents[0].parts[1].inlineData" {
		t.Errorf("the type of the image is at %s", at)
	}
	if at := got.media[0].urlPath(); at != "contents[0].parts[1].inlineData.data" {
		t.Errorf("the image is at %s", at)
	}
	if e := stoa.AsError(got.own(unsupportedValue("tool_choice", "No."))); e.Param != "toolConfig.functionCallingConfig.mode" {
		t.Errorf("the choice is at %s", e.Param)
	}
	if diff := cmp.Diff([]string{"generationConfig.seed", "generationConfig.mediaResolution", "toolConfig.functionCallingConfig.mode", "seed"}, got.ignored.paths); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	refusing := otherOptions
	refusing.ForeignTools = false
	for tools, want := range map[string]string{
		`{"functionDeclarations":[{"name":"a b"}]}`:                              "tools[0].functionDeclarations[0].name",
		`{"functionDeclarations":[{"name":"f","parameters":{"type":"STRING"}}]}`: "tools[0].functionDeclarations[0].parameters",
		`{"functionDeclarations":[{"name":"f"}]},{"googleSearch":{}}`:            "tools[1].googleSearch",
	} {
		_, err := parse([]byte(`{"contents":[{"parts":[{"text":"x"}]}],"tools":[`+tools+`]}`), refusing)
		if e := stoa.AsError(err); err == nil || e.Param != want {
			t.Errorf("%s: %v at %s, want %s", tools, err, e.Param, want)
		}
	}
}
