package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/extract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// Names and limits of the built-in tools.
const (
	toolList   = "drive_list"
	toolRead   = "drive_read"
	toolSearch = "drive_search"
	toolWrite  = stoa.DriveWrite
	toolAsk    = session.AskTool
)

const (
	listLimit   = 200
	searchLimit = 8
	readLines   = 400
	maxOptions  = 20
	maxOption   = 200   // characters
	maxQuestion = 4_000 // characters, also of a default answer
)

const tooManyAtOnce = "At most %d tools of this kind can be called at once; this one was not."

// tools returns the tools with which the call begins.
func (p *prompt) tools() []stoa.Tool {
	list := p.offers()
	if p.told != nil && p.told.list != nil {
		list = slices.Clone(p.told.list)
	}
	for i := range list {
		list[i].Strict = new(bool) // so that a wrong argument is reported to the model
	}
	return list
}

// offers returns the tools that the agent may use in this turn.
func (p *prompt) offers() []stoa.Tool {
	var tools []stoa.Tool
	attached := ""
	if len(p.attachments) > 0 {
		attached = `,"attached":{"type":"boolean","description":"true: files that the user attached, by their names; leave out for the drive"}`
	}
	if attached != "" || p.access != stoa.DriveNone && (p.knowledge.Stats.Files > 0 || p.access == stoa.DriveReadWrite || p.usedDrive() || p.told.has(toolList)) {
		tools = append(tools,
			stoa.Tool{
				Name: toolList, Description: "List the files of your drive in the order of their paths.",
				Parameters: `{"type":"object","properties":{"prefix":{"type":"string","description":"what the paths begin with; leave out for all"},"after":{"type":"string","description":"\"next\" of the list before, to go on"}` + attached + `},"additionalProperties":false}`,
			},
			stoa.Tool{
				Name: toolRead, Description: "Read lines of one text or document of your drive, or look at one image (PNG, JPEG, WebP, GIF) or scanned page if you can see images.",
				Parameters: `{"type":"object","properties":{"path":{"type":"string"},"fromLine":{"type":"integer","minimum":1},"toLine":{"type":"integer","minimum":1},"fromByte":{"type":"integer","minimum":0},"page":{"type":"integer","minimum":1},"image":{"type":"boolean","description":"true: a PDF page as an image"},"sheet":{"type":"string"},"fromRow":{"type":"integer","minimum":1},"toRow":{"type":"integer","minimum":1}` + attached + `},"required":["path"],"additionalProperties":false}`,
			},
			stoa.Tool{
				Name: toolSearch, Description: "Search the texts of your drive for words; gives the passages that fit best, with path and lines.",
				Parameters: `{"type":"object","properties":{"query":{"type":"string"},"prefix":{"type":"string","description":"look only at paths that begin so"}` + attached + `},"required":["query"],"additionalProperties":false}`,
			})
	}
	if p.access == stoa.DriveReadWrite && !p.isExternal(toolWrite) {
		tools = append(tools, writeTool)
	}
	if len(p.skills) > 0 {
		tools = append(tools, skillTool)
	}
	for _, t := range memoryTools {
		if p.owner != nil && !p.isExternal(t.Name) && (t.Name != toolMemoryWrite || p.canKeep()) {
			tools = append(tools, t)
		}
	}
	for _, t := range tableTools {
		if p.tables && !p.isExternal(t.Name) {
			tools = append(tools, t)
		}
	}
	if p.mode == stoa.ModeChat {
		tools = append(tools, stoa.Tool{
			Name: toolAsk, Description: "Ask the user something you cannot go on without, and wait for the answer.",
			Parameters: `{"type":"object","properties":{"question":{"type":"string"},"options":{"type":"array","items":{"type":"string"},"maxItems":20,"description":"for a choice: the answers to choose from"},"approval":{"type":"boolean","description":"true: the user approves or rejects"},"defaultAnswer":{"type":"string","description":"what to go on with if the user never answers"}},"required":["question"],"additionalProperties":false}`,
		})
	}
	for _, t := range p.external {
		if !p.search || isOfDrive(t) || p.told.has(t.Name) {
			tools = append(tools, t.Tool())
		}
	}
	if p.search {
		tools = append(tools, p.searchTools()...)
	}
	if p.readsResults() {
		tools = append(tools, resultTool)
	}
	return tools
}

var writeTool = stoa.Tool{
	Name: toolWrite, Description: "Write a text file to your drive, whole; it replaces the file at that path.",
	Parameters: `{"type":"object","properties":{"path":{"type":"string","description":"relative, folders separated by /"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}`,
}

// isExternal reports whether calls of a tool are planned with their step.
func (p *prompt) isExternal(name string) bool {
	return slices.ContainsFunc(p.external, func(t stoa.OfferedTool) bool { return t.Name == name })
}

// readsResults reports whether long results of tools can be read on. It holds from the first step
// on, since a change of the tools breaks the prefix for the vendor's cache.
func (p *prompt) readsResults() bool {
	return p.cut || len(p.external) > 0 || p.told.has(toolResultRead)
}

// usedDrive reports whether the turn has called a tool of the drive. Such tools stay offered,
// because vendors bind reasoning to them.
func (p *prompt) usedDrive() bool {
	return slices.ContainsFunc(p.steps, func(s stoa.Step) bool { return slices.ContainsFunc(s.Calls, ofDrive) })
}

func ofDrive(c stoa.ToolCall) bool { return strings.HasPrefix(c.Name, "drive_") }

// argumentsOf returns the arguments of a call as JSON, because some vendors send an empty string
// for no arguments.
func argumentsOf(arguments string) string {
	if strings.TrimSpace(arguments) == "" {
		return "{}"
	}
	return arguments
}

// use runs one tool call; planned reports whether it was approved. A fault of the model becomes an error result, and nothing is done;
// a returned error is internal.
func (w *Worker) use(ctx context.Context, p *prompt, who drive.Owner, step, ref string, c stoa.ToolCall, planned bool) (session.ToolEffect, error) {
	wrong := func(format string, args ...any) (session.ToolEffect, error) {
		return session.ToolEffect{Result: stoa.ToolResult{CallID: c.ID, Name: c.Name, IsError: true, Content: w.bound(fmt.Sprintf(format, args...))}}, nil
	}
	if !slices.ContainsFunc(p.offers(), func(t stoa.Tool) bool { return t.Name == c.Name }) {
		if p.told.has(c.Name) {
			return wrong("%s Nothing was done.", p.unavailable(c.Name))
		}
		return wrong("There is no tool of that name; nothing was done.")
	}
	if !planned && p.isExternal(c.Name) {
		return wrong(tooManyAtOnce, session.CallsPerStep)
	}
	arguments := argumentsOf(c.Arguments)
	var out session.ToolEffect
	var content any
	var err error
	switch c.Name {
	case toolList:
		var in struct {
			Prefix   string `json:"prefix"`
			After    string `json:"after"`
			Attached bool   `json:"attached"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		if p.attachedOnly(in.Attached) {
			content, err = w.listAttached(ctx, p, who.AccountID)
			break
		}
		content, err = w.driveList(ctx, p, who, in.Prefix, in.After)
	case toolRead:
		var in readRequest
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		if p.attachedOnly(in.Attached) {
			content, err = w.readAttached(ctx, p, who.AccountID, in)
			break
		}
		content, err = w.driveRead(ctx, p, who, in, &out)
	case toolSearch:
		var in struct {
			Query    string `json:"query"`
			Prefix   string `json:"prefix"`
			Attached bool   `json:"attached"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		content, err = w.driveSearch(ctx, p, who, in.Query, in.Prefix, p.attachedOnly(in.Attached), &out)
	case toolWrite:
		var in struct {
			Path    string  `json:"path"`
			Content *string `json:"content"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		if in.Content == nil {
			return wrong("The argument content is missing; nothing was written.")
		}
		if err = p.visible(in.Path); err == nil {
			content, err = w.driveWrite(ctx, who, step, ref, in.Path, *in.Content, &out)
		}
	case toolSkill:
		var in struct {
			Name     string `json:"name"`
			Path     string `json:"path"`
			FromLine int64  `json:"fromLine"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		content, err = w.skillRead(ctx, p, who, in.Name, in.Path, in.FromLine)
	case stoa.FindTool:
		var in struct {
			Query string `json:"query"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		text, err := jsonx.Marshal(p.findTools(session.CutRunes(in.Query, maxQuestion), w.textBudget()))
		out.Result = stoa.ToolResult{CallID: c.ID, Name: c.Name, Content: string(text)}
		return out, err
	case stoa.CallTool:
		return wrong("%s", p.uncalled(c))
	case toolMemoryRead:
		var in struct {
			Name string `json:"name"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		content, err = w.memoryRead(ctx, p, in.Name)
	case toolMemoryWrite:
		var in struct {
			Name    string  `json:"name"`
			Content *string `json:"content"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		if in.Content == nil {
			return wrong("The argument content is missing; nothing was written.")
		}
		out.Result, out.Memory = stoa.ToolResult{CallID: c.ID, Name: c.Name}, &stoa.MemoryNote{Name: in.Name, Text: *in.Content}
		return out, nil
	case toolTableList:
		var in struct {
			Prefix string `json:"prefix"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		content, err = w.tableList(ctx, p, who, in.Prefix)
	case toolTableQuery:
		var in struct {
			SQL string `json:"sql"`
		}
		if bad := readArguments(arguments, &in); bad != "" {
			return wrong("%s", bad)
		}
		content, err = w.tableQuery(ctx, p, who, in.SQL, &out)
	case toolAsk:
		in, bad := readQuestion(arguments)
		if bad != "" {
			return wrong("%s", bad)
		}
		in.CallID = c.ID
		return session.ToolEffect{Input: &in}, nil
	}
	if err != nil {
		e := stoa.AsError(err)
		switch e.Code {
		case stoa.CodeInternal, stoa.CodeOverloaded:
			return session.ToolEffect{}, err
		}
		return wrong("%s", e.Message)
	}
	text, err := jsonx.Marshal(content)
	if err != nil {
		return session.ToolEffect{}, err
	}
	out.Result = stoa.ToolResult{CallID: c.ID, Name: c.Name, Content: w.bound(string(text))}
	return out, nil
}

// readArguments decodes a model's arguments strictly, so that a call that is not fully understood
// is not executed.
func readArguments(text string, into any) (bad string) {
	if !jsonx.Valid([]byte(text)) {
		return "The arguments are not valid JSON; nothing was done."
	}
	if jsonx.UnmarshalKnown([]byte(text), into) != nil {
		return "The arguments are not those that the tool takes (a wrong type, or a member that it does not know); nothing was done."
	}
	return ""
}

// readQuestion parses the arguments of the tool that asks the user. If the second result is
// not empty, it explains to the model why the user was not asked.
func readQuestion(text string) (stoa.Input, string) {
	var in struct {
		Question      string   `json:"question"`
		Options       []string `json:"options"`
		Approval      bool     `json:"approval"`
		DefaultAnswer *string  `json:"defaultAnswer"`
	}
	if bad := readArguments(text, &in); bad != "" {
		return stoa.Input{}, bad
	}
	if strings.TrimSpace(in.Question) == "" {
		return stoa.Input{}, "The question is empty; the user was not asked."
	}
	texts := append(slices.Clone(in.Options), in.Question)
	if in.DefaultAnswer != nil {
		texts = append(texts, *in.DefaultAnswer)
	}
	if strings.ContainsRune(strings.Join(texts, ""), 0) {
		return stoa.Input{}, "The question contains a NUL character; the user was not asked."
	}
	out := stoa.Input{Kind: stoa.InputQuestion, Prompt: session.CutRunes(in.Question, maxQuestion), Default: in.DefaultAnswer}
	if out.Default != nil && utf8.RuneCountInString(*out.Default) > maxQuestion {
		return out, fmt.Sprintf("The default answer is longer than %d characters; the user was not asked.", maxQuestion)
	}
	switch {
	case len(in.Options) > maxOptions:
		return out, fmt.Sprintf("There are %d options; at most %d can be offered. The user was not asked.", len(in.Options), maxOptions)
	case len(in.Options) > 0:
		out.Kind, out.Options = stoa.InputChoice, in.Options
		for i, o := range in.Options {
			if strings.TrimSpace(o) == "" || utf8.RuneCountInString(o) > maxOption || slices.Contains(in.Options[:i], o) {
				return out, "An option is empty, too long or there twice; the user was not asked."
			}
		}
	case in.Approval:
		out.Kind, out.Options = stoa.InputApproval, []string{"approve", "reject"}
	}
	if out.Default != nil && len(out.Options) > 0 && !slices.Contains(out.Options, *out.Default) {
		return out, "The default answer is none of the options; the user was not asked."
	}
	return out, ""
}

type listedFile struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Lines    int64  `json:"lines,omitzero"`
	MimeType string `json:"mimeType"`
	Pages    int64  `json:"pages,omitzero"`
	Unread   string `json:"unread,omitzero"`
}

func listed(f drive.File) listedFile {
	one := listedFile{Path: f.Path, Bytes: f.Size, Lines: f.Lines, MimeType: f.MimeType, Pages: f.Pages}
	if !f.Text && f.TextStatus != extract.None {
		one.Unread = drive.Why(f.TextStatus)
	}
	return one
}

func (w *Worker) driveList(ctx context.Context, p *prompt, who drive.Owner, prefix, after string) (any, error) {
	page, err := w.cfg.Drives.List(ctx, who, drive.Listing{Prefix: prefix, Except: p.hidden(), Limit: listLimit, Cursor: after})
	if err != nil {
		return nil, err
	}
	var out struct {
		Files []listedFile `json:"files"`
		Next  string       `json:"next,omitzero"`
		Note  string       `json:"note,omitzero"`
	}
	size := 0
	for _, f := range page.Files {
		if size += len(f.Path) + 80; size > w.cfg.ToolOutput {
			out.Note = "The list is longer than this; ask for a prefix."
			page.Next = ""
			break
		}
		one := listed(f)
		size += len(one.Unread)
		out.Files = append(out.Files, one)
	}
	if out.Next = page.Next; out.Next != "" {
		out.Note = "There are more files: call again with after set to next."
	}
	return out, nil
}

type readRequest struct {
	Path     string `json:"path"`
	FromLine int64  `json:"fromLine"`
	ToLine   int64  `json:"toLine"`
	FromByte int64  `json:"fromByte"`
	Page     int64  `json:"page"`
	Image    bool   `json:"image"`
	Sheet    string `json:"sheet"`
	FromRow  int64  `json:"fromRow"`
	ToRow    int64  `json:"toRow"`
	Attached bool   `json:"attached"`
}

// readPassage is the result of drive_read.
type readPassage struct {
	Path  string `json:"path"`
	Place string `json:"place,omitzero"`
	Lines string `json:"lines"`
	Total int64  `json:"totalLines"`
	Head  string `json:"header,omitzero"` // of a table
	Text  string `json:"text"`
	Note  string `json:"note,omitzero"`
}

// driveRead implements drive_read: it returns lines of a text, numbered from 1, or an image, and
// records them as a source.
func (w *Worker) driveRead(ctx context.Context, p *prompt, who drive.Owner, in readRequest, out *session.ToolEffect) (any, error) {
	at, err := drive.ParsePath(in.Path)
	if err == nil {
		err = p.visible(at.String())
	}
	if err != nil {
		return nil, err
	}
	from, to := max(in.FromLine, 1), in.ToLine
	switch {
	case in.Image:
		return w.readPage(ctx, p, who, at, max(in.Page, 1), out)
	case in.Sheet != "" || in.FromRow > 0 || in.ToRow > 0:
		if from, to, err = w.cfg.Drives.RowLines(ctx, who, at, in.Sheet, in.FromRow, in.ToRow); err != nil {
			return nil, err
		}
		to = min(to, from+readLines-1)
	case in.Page > 0:
		first, last, err := w.cfg.Drives.PageLines(ctx, who, at, in.Page)
		switch {
		case err != nil:
			return nil, err
		case first == 0:
			return w.readPage(ctx, p, who, at, in.Page, out)
		case from > last:
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "Page %d has the lines %d to %d, which are before fromLine %d. Leave fromLine out to read the page.", in.Page, first, last, from)
		case to == 0 || to > last:
			to = last
		}
		from = max(from, first)
	}
	if to == 0 {
		to = from + readLines - 1
	}
	lines, err := w.cfg.Drives.ReadFrom(ctx, who, at, from, to, in.FromByte)
	if stoa.CodeOf(err) == stoa.CodeInvalidValue { // because it is not a text
		return w.readImage(ctx, p, who, at, err, out)
	}
	if err != nil {
		return nil, err
	}
	text, last := fitLines(lines.Text, lines.FirstLine, lines.LastLine, w.textBudget())
	got := readPassage{Path: lines.File.Path, Place: lines.Place, Lines: stoa.LineRange(lines.FirstLine, last), Total: lines.File.Lines, Head: lines.Header, Text: text}
	switch {
	case lines.FirstLine == 0:
		got.Note = "There are no lines in that range."
	case last == lines.FirstLine && !strings.HasSuffix(text, "\n") && (lines.Truncated || len(text) < len(lines.Text)):
		got.Note = fmt.Sprintf("The line is cut: it is too long to be given whole. Read on with fromLine %d and fromByte %d.", last, in.FromByte+int64(len(text)))
	case last < lines.File.Lines:
		got.Note = fmt.Sprintf("The file goes on at line %d.", last+1)
	}
	if lines.FirstLine > 0 {
		out.Sources = []stoa.Source{{Path: lines.File.Path, SHA256: lines.File.SHA256, FromLine: lines.FirstLine, ToLine: last, Place: lines.Place, Via: "read"}}
	}
	return got, nil
}

// textBudget returns the maximum size of file text in a tool's result, in bytes. The rest is
// reserved for JSON syntax.
func (w *Worker) textBudget() int { return w.cfg.ToolOutput * 3 / 4 }

// fitLines keeps the whole lines that fit into budget bytes when encoded as JSON, and at
// least part of the first line.
func fitLines(text string, first, last int64, budget int) (string, int64) {
	if jsonLength(text) <= budget {
		return text, last
	}
	used, end, line := 0, 0, first-1
	for part := range strings.Lines(text) {
		n := jsonLength(part)
		if used+n > budget {
			break
		}
		used += n
		end += len(part)
		line++
	}
	if end > 0 {
		return text[:end], line
	}
	for i, c := range text {
		used += jsonLength(string(c)) - 2
		if used > budget-2 {
			return text[:i], first
		}
	}
	return text, first
}

func jsonLength(s string) int { return len(jsonx.AppendString(nil, s)) }

type foundPassage struct {
	Attached bool   `json:"attached,omitzero"`
	Path     string `json:"path"`
	Place    string `json:"place,omitzero"`
	Lines    string `json:"lines"`
	From     int64  `json:"fromByte,omitzero"` // set for a line that is longer than a passage
	Header   string `json:"header,omitzero"`   // of a table
	Text     string `json:"text"`
}

// driveSearch implements drive_search: it returns the best passages for a query that fit into
// a tool's output, and records each of the drive as a source. Passages of attached files follow
// each other in turn with those of the drive, which are left out if only is set.
func (w *Worker) driveSearch(ctx context.Context, p *prompt, who drive.Owner, query, prefix string, only bool, out *session.ToolEffect) (any, error) {
	var result drive.Found
	var err error
	if !only {
		if result, err = w.cfg.Drives.SearchExcept(ctx, who, query, prefix, p.hidden(), searchLimit); err != nil {
			return nil, err
		}
	}
	var attached []drive.Hit
	if prefix == "" || only {
		if attached, err = w.searchAttached(ctx, p, who.AccountID, query); err != nil {
			return nil, err
		}
	}
	type hit struct {
		drive.Hit
		attached bool
	}
	var hits []hit
	for i := range max(len(result.Hits), len(attached)) {
		if i < len(result.Hits) {
			hits = append(hits, hit{result.Hits[i], false})
		}
		if i < len(attached) {
			hits = append(hits, hit{attached[i], true})
		}
	}
	var found struct {
		Passages []foundPassage `json:"passages"`
		Note     string         `json:"note,omitzero"`
	}
	left := w.textBudget()
	for _, h := range hits[:min(len(hits), searchLimit)] {
		if left < 200 {
			found.Note = "There were more passages; search for something narrower."
			break
		}
		text, last := fitLines(h.Text, h.FirstLine, h.LastLine, left)
		left -= jsonLength(text) + len(h.Path) + len(h.Place) + len(h.Header) + 60
		found.Passages = append(found.Passages, foundPassage{Attached: h.attached, Path: h.Path, Place: h.Place, Lines: stoa.LineRange(h.FirstLine, last), From: h.FromByte, Header: h.Header, Text: text})
		if !h.attached {
			out.Sources = append(out.Sources, stoa.Source{Path: h.Path, SHA256: h.SHA256, FromLine: h.FirstLine, ToLine: last, Place: h.Place, Via: "search"})
		}
	}
	switch {
	case result.Cut:
		found.Note = "The search took too long, so there may be better passages; rarer words or a narrower prefix help."
	case len(found.Passages) == 0:
		found.Note = "Nothing was found. Other words may help."
	}
	return found, nil
}

// driveWrite implements drive_write. ref identifies the call, so that a repeated step writes
// only once.
func (w *Worker) driveWrite(ctx context.Context, who drive.Owner, step, ref, path, text string, out *session.ToolEffect) (any, error) {
	p, err := writablePath(path)
	if err != nil {
		return nil, err
	}
	c, err := w.cfg.Drives.PutText(ctx, who, drive.Claim{Scope: drive.StepScope, Ref: ref}, p, text, "")
	if err != nil {
		return nil, err
	}
	var wrote struct {
		Path    string `json:"path"`
		Outcome string `json:"outcome"`
		Bytes   int64  `json:"bytes"`
	}
	wrote.Path, wrote.Outcome = c.Path, string(c.Outcome)
	if c.File != nil {
		wrote.Bytes = c.File.Size
		out.Written = &session.DriveData{StepID: step, Path: c.Path, SHA256: c.File.SHA256, Outcome: string(c.Outcome)}
	}
	return wrote, nil
}

// writablePath parses the path of a file that a model writes. It refuses names that begin with a
// dot, because programs on the machines that files are copied to act on them.
func writablePath(path string) (drive.Path, error) {
	p, err := drive.ParsePath(path)
	if err == nil && p.IsHidden() {
		err = stoa.Errorf(stoa.CodeInvalidPath, "Names of files and folders must not begin with a dot; nothing was written.")
	}
	return p, err
}

// bound shortens a tool's result to the limit.
func (w *Worker) bound(s string) string { return session.Shown(s, w.cfg.ToolOutput) }
