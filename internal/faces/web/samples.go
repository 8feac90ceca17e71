package web

import (
	"slices"
	"strings"
)

// exampleBody returns the body for an operation's samples: the first example of its JSON request, or nil.
func (b *builder) exampleBody(v *value) *value {
	body := v.get("requestBody")
	if body == nil {
		return nil
	}
	media := b.follow(body).get("content", "application/json")
	if e := media.get("example"); e != nil {
		return e
	}
	for _, e := range media.all("examples") {
		if given := b.follow(e.value).get("value"); given != nil {
			return given
		}
	}
	if schema := media.get("schema"); schema != nil {
		return b.sampleOf(schema, 0)
	}
	return nil
}

// maxSampleDepth is the maximum depth of a sample, so that recursive schemas end.
const maxSampleDepth = 4

// sampleOf returns a body with the required members of a schema.
func (b *builder) sampleOf(v *value, depth int) *value {
	v = b.follow(v)
	if v == nil || depth > maxSampleDepth {
		return &value{kind: 's'}
	}
	if e := v.get("example"); e != nil {
		return e
	}
	if e := v.list("enum"); len(e) > 0 {
		return e[0]
	}
	for _, word := range []string{"allOf", "oneOf", "anyOf"} {
		if parts := v.list(word); len(parts) > 0 && v.get("properties") == nil {
			return b.sampleOf(parts[0], depth+1)
		}
	}
	switch v.str("type") {
	case "object":
		out := &value{kind: 'o'}
		for _, name := range v.strs("required") {
			if p := v.get("properties", name); p != nil {
				out.members = append(out.members, member{name, b.sampleOf(p, depth+1)})
			}
		}
		return out
	case "array":
		return &value{kind: 'a', items: []*value{b.sampleOf(v.get("items"), depth+1)}}
	case "integer", "number":
		return &value{kind: 's', scalar: 1}
	case "boolean":
		return &value{kind: 's', scalar: true}
	case "string":
		return &value{kind: 's', scalar: "…"}
	}
	return &value{kind: 's'}
}

// commands returns the operations with their own command. The samples of others use "stoa api".
func commands() map[string]string {
	return map[string]string{
		"createResponse": `stoa respond -m auto "Why is the sky blue?"`,
		"getMe":          `stoa whoami`,

		"createKey": `stoa keys create --name website --scope responses`,
		"listKeys":  `stoa keys list`,
		"getKey":    `stoa keys get "$ID"`,
		"rotateKey": `stoa keys rotate "$ID" --overlap 24h`,
		"revokeKey": `stoa keys revoke "$ID"`,

		"getCredits":     `stoa credits`,
		"listLedger":     `stoa credits ledger`,
		"listReceipts":   `stoa receipts list`,
		"getReceipt":     `stoa receipts get "$ID"`,
		"getUsage":       `stoa usage --from 7d --by day,model`,
		"reconcileUsage": `stoa credits reconcile`,

		"createAccount":    `stoa accounts create --name acme --plan free --grant 5`,
		"listAccounts":     `stoa accounts list`,
		"getAccount":       `stoa accounts get "$ID"`,
		"updateAccount":    `stoa accounts plan "$ID" pro`,
		"createGrant":      `stoa accounts grant "$ID" 5 --reason top-up`,
		"createAccountKey": `stoa accounts keys "$ID" --name replacement`,

		"listProviders": `stoa providers`,
		"listNodes":     `stoa nodes`,
		"getDiagnosis":  `stoa doctor`,

		"createSpace":     `stoa spaces create --name support`,
		"listSpaces":      `stoa spaces list`,
		"getSpace":        `stoa spaces get "$ID"`,
		"updateSpace":     `stoa spaces update "$ID" --description "Agents that customers see"`,
		"deleteSpace":     `stoa spaces delete "$ID"`,
		"listSpaceAgents": `stoa agents list --space "$ID"`,

		"createAgent":       `stoa agents create --name support -i "Answer from the files."`,
		"listAgents":        `stoa agents list`,
		"getAgent":          `stoa agents get "$ID"`,
		"updateAgent":       `stoa agents update "$ID" -i @instructions.md`,
		"deleteAgent":       `stoa agents delete "$ID"`,
		"listAgentVersions": `stoa agents versions "$ID"`,
		"rollbackAgent":     `stoa agents rollback "$ID" 1`,
		"duplicateAgent":    `stoa agents duplicate "$ID" --name support-test`,

		"getDrive":              `stoa drive info "$ID"`,
		"listDriveFiles":        `stoa drive ls "$ID"`,
		"putDriveFile":          `stoa drive push "$ID" prices.csv`,
		"putDriveFileContent":   `stoa drive push "$ID" prices.csv`,
		"getDriveFileContent":   `stoa drive cat "$ID" handbook/refunds.md`,
		"deleteDriveFiles":      `stoa drive delete "$ID" old.md`,
		"moveDriveFile":         `stoa drive mv "$ID" draft.md handbook/refunds.md`,
		"listDriveFileVersions": `stoa drive versions "$ID" handbook/refunds.md`,
		"restoreDriveFile":      `stoa drive restore "$ID" handbook/refunds.md 3`,
		"searchDrive":           `stoa drive search "$ID" refund`,
		"exportDrive":           `stoa drive export "$ID" drive.zip`,

		"listMemories":      `stoa memory users "$ID"`,
		"listMemoryNotes":   `stoa memory list "$ID" user-1042`,
		"setMemoryNote":     `stoa memory put "$ID" user-1042 language "Answers in German."`,
		"deleteMemoryNotes": `stoa memory delete "$ID" user-1042`,

		"listSkills":         `stoa skills list "$ID"`,
		"importServerSkills": `stoa skills import "$ID" --connection crm`,
		"importSkills":       `stoa skills import "$ID" skills.zip`,
		"getSkill":           `stoa skills review "$ID" "$NAME"`,
		"reviewSkill":        `stoa skills review "$ID" "$NAME" --accept "$DIGEST"`,
		"removeSkill":        `stoa skills delete "$ID" "$NAME"`,

		"createSession":     `stoa sessions start "$ID" "What about refunds?" --wait`,
		"listAllSessions":   `stoa sessions list --status waiting_for_input`,
		"findSession":       `stoa sessions get "$ID"`,
		"listSessions":      `stoa sessions list "$ID"`,
		"getSession":        `stoa sessions get "$ID" "$SESSION_ID"`,
		"deleteSession":     `stoa sessions delete "$ID" "$SESSION_ID"`,
		"listMessages":      `stoa sessions messages "$ID" "$SESSION_ID"`,
		"sendMessage":       `stoa sessions reply "$ID" "$SESSION_ID" "And abroad?"`,
		"answerInput":       `stoa sessions reply "$ID" "$SESSION_ID" blue`,
		"cancelSession":     `stoa sessions cancel "$ID" "$SESSION_ID"`,
		"upgradeSession":    `stoa sessions upgrade "$ID" "$SESSION_ID"`,
		"retrySession":      `stoa sessions retry "$ID" "$SESSION_ID"`,
		"listSessionEvents": `stoa sessions watch "$ID" "$SESSION_ID"`,
		"exportSession":     `stoa sessions export "$ID" "$SESSION_ID"`,
	}
}

// samplesOf returns the samples of an operation for curl and the command line.
func samplesOf(op operation, body *value) []sample {
	var curl, cli strings.Builder
	path := samplePath(op)
	file, stream := "", false
	for _, a := range op.Answers {
		for _, c := range a.Bodies {
			stream = stream || c.Stream
		}
	}
	curl.WriteString("curl ")
	if stream {
		curl.WriteString("--no-buffer ")
	}
	if op.Method != "GET" && !(op.Method == "POST" && body != nil) {
		curl.WriteString("--request " + op.Method + " ")
	}
	curl.WriteString(quote("$STOA_BASE_URL" + path))
	if op.Secret != "" {
		curl.WriteString(" \\\n  --header \"Authorization: Bearer $STOA_API_KEY\"")
	}
	switch {
	case body != nil:
		curl.WriteString(" \\\n  --json " + single(body.inline()))
	case slices.ContainsFunc(op.Bodies, func(c content) bool { return c.Type == "*/*" }):
		file = "prices.csv"
		if op.ID == "importSkills" {
			file = "skills.zip"
		}
		curl.WriteString(" \\\n  --data-binary @" + file)
	}
	if word, ok := commands()[op.ID]; ok {
		cli.WriteString(word)
	} else {
		if body != nil {
			cli.WriteString("echo " + single(body.inline()) + " |\n  ")
		}
		cli.WriteString("stoa api " + op.Method + " " + bare(path))
		if body != nil {
			cli.WriteString(" --input -")
		} else if file != "" {
			cli.WriteString(" --input " + file)
		}
	}
	return []sample{{"curl", curl.String()}, {"stoa", cli.String()}}
}

// samplePath replaces each path parameter by a shell variable and adds the required query parameters.
func samplePath(op operation) string {
	path := op.Path
	query := ""
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", "$"+variable(p.Name))
		case p.In == "query" && p.Required:
			sep := "&"
			if query == "" {
				sep = "?"
			}
			given := p.Example
			if given == "" {
				given = "$" + variable(p.Name)
			}
			query += sep + p.Name + "=" + given
		}
	}
	return path + query
}

// variable returns the name of a parameter's shell variable: agentId becomes AGENT_ID. A parameter called path becomes
// FILE, because the shell uses PATH.
func variable(name string) string {
	if name == "path" {
		return "FILE"
	}
	var out strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			out.WriteByte('_')
		}
		out.WriteRune(r)
	}
	return strings.ToUpper(out.String())
}

// quote quotes a word in double quotes, because these expand variables.
func quote(s string) string { return `"` + s + `"` }

// bare quotes a word only if the shell requires it.
func bare(s string) string {
	if strings.ContainsAny(s, "$?&* ") {
		return quote(s)
	}
	return s
}

func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
