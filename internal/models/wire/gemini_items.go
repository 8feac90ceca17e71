package wire

import "stoa/internal/base/jsonx"

// wholeCall begins a call and emits its arguments, which arrived complete, after its
// signature.
func (f *geminiReply) wholeCall(call *geminiCall) error {
	f.said = false
	if call.signature != nil {
		if err := f.signed("call", call.signature); err != nil {
			return err
		}
	}
	if err := f.beginCall(call.id, ownName(call.name)); err != nil {
		return err
	}
	return f.callText(string(call.arguments))
}

// signedText emits a text that has a signature. The signature is kept if the text begins with
// this part, and dropped otherwise: the vendor does not require it, and it would split the
// text into two items. An empty text cannot keep one.
func (f *geminiReply) signedText(c *jsonx.Cursor, signature []byte) error {
	text := f.join.Next(c)
	if text != "" && !f.said {
		if err := f.signed("text", signature); err != nil {
			return err
		}
	}
	return f.addText(text)
}

// signed emits the signature of the next part as a segment of reasoning. It must be base64.
func (f *geminiReply) signed(on string, signature []byte) error {
	return f.reasoned(f.route, newGeminiState(on, signature), tokensOfBase64(len(signature)))
}
