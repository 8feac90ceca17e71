package wire

// wholeCall begins a call and emits its arguments, which arrived complete, after its
// signature.
func (f *geminiReply) wholeCall(call *geminiCall) error {
	f.said = false
	if call.signature != nil {
		if err := f.signed("call", call.signature); err != nil {
			return err
		}
	}
	name := call.name
	if name != "" && name[0] == '_' && isMarked(name) { // as [geminiName] has changed it
		name = name[1:]
	}
	if err := f.beginCall(call.id, name); err != nil {
		return err
	}
	return f.callText(string(call.arguments))
}

// signed emits the signature of the next part as a segment of reasoning. It must be base64.
func (f *geminiReply) signed(on string, signature []byte) error {
	return f.reasoned(f.route, newGeminiState(on, signature), tokensOfBase64(len(signature)))
}
