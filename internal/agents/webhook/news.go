package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/mail"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Maximum lengths in mails, in characters, because a caller, a model or a tool writes the texts.
const (
	maxText  = 300
	maxName  = 80
	maxTopic = 60 // the question in the subject
)

// sentences say what an event is, without the final point. "{a noun}" becomes the noun with the name of the
// object if that is known. A test compares them with the contract.
var sentences = map[string]string{
	SessionCompleted:  "{An agent} has answered",
	SessionFailed:     "{An agent} could not answer",
	SessionCancelled:  "A session of {an agent} was cancelled",
	SessionWaiting:    "{An agent} waits for input",
	RunFinished:       "{A schedule} has run",
	RunSkipped:        "Runs of {a schedule} were skipped",
	TaskPaused:        "{A schedule} is paused",
	CreditsLow:        "The credits of {an account} are low",
	CreditsExhausted:  "The credits of {an account} are used up",
	KeyExpiring:       "{An API key} expires soon",
	KeyPauseSoon:      "{An API key} will be paused soon, because its member has not signed in",
	WebhookFailing:    "{A webhook} does not work",
	WebhookDisabled:   "{A webhook} was disabled",
	CallUnknown:       "It is unknown whether a tool call of {an agent} was executed",
	ReviewNeeded:      "A tool of {a connection} needs a review",
	NeedsAuth:         "{A connection} needs an authorization",
	AttachmentCreated: "A visitor has uploaded a file for {an agent}",
	MessageFeedback:   "An answer of {an agent} was rated",
	PersonRequested:   "A visitor of {an agent} asks for a person",
	AuditAnchor:       "The audit log has new entries",
	AuditRecorded:     "The audit log has a new entry",
	BudgetThreshold:   "A budget has reached a threshold",
	ProviderDown:      "{A provider} does not answer",
	ProviderUp:        "{A provider} answers again",
	ErrorsHigh:        "Many model calls fail",
	BalanceLow:        "{A customer} is low on credits",
	NodeLost:          "{A node} was lost",
	ConfigRefused:     "A configuration was refused",
	test:              "This is a test",
}

// nouns maps the objects of sentences to the members of the data that identify them.
var nouns = map[string]string{
	"agent": "agentId", "schedule": "taskId", "account": "accountId", "API key": "keyId", "webhook": "webhookId",
	"connection": "connectionId", "provider": "provider", "customer": "customerId", "node": "address",
}

// named maps the prefixes of ids to kinds of objects with names.
var named = map[string]string{
	"agt": store.NamedAgents, "key": store.NamedKeys, "spc": store.NamedSpaces, "con": store.NamedConnections, "per": store.NamedMembers,
	"acc": store.NamedAccounts, "tsk": store.NamedTasks,
}

// facts are the members of the data that a mail shows, in this order; "error.code" is a member of an object.
// The first five are not in the data of events. Ids are shown together at the end.
var facts = []struct{ member, label, unit string }{
	{"question", "Question", ""},
	{"reply", "Reply", ""},
	{"failure", "Error", ""},
	{"prompt", "It asks", ""},
	{"costMicro", "Cost", ""},
	{"pendingInput.kind", "Waits for", ""},
	{"pendingInput.tools", "Tools", ""},
	{"pendingInput.expiresAt", "Until", ""},
	{"tool", "Tool", ""},
	{"statusReason", "Reason", ""},
	{"status", "Result", ""},
	{"skipReason", "Reason", ""},
	{"pauseReason", "Reason", ""},
	{"reason", "Reason", ""},
	{"scheduledFor", "Scheduled for", ""},
	{"scheduledThrough", "Through", ""},
	{"instants", "Runs", ""},
	{"scope", "Budget of", ""},
	{"subject", "Name", ""},
	{"percent", "Share", " %"},
	{"spentMicro", "Spent", ""},
	{"limitMicro", "Limit", ""},
	{"startsAt", "Period from", ""},
	{"resetsAt", "Until", ""},
	{"availableMicro", "Available", ""},
	{"thresholdMicro", "Threshold", ""},
	{"memberId", "Member", ""},
	{"expiresAt", "Expires", ""},
	{"pausesAt", "Pauses", ""},
	{"failingSince", "Fails since", ""},
	{"lastSuccessAt", "Worked until", ""},
	{"mimeType", "Type of file", ""},
	{"size", "Size", " bytes"},
	{"auditId", "Audit log", ""},
	{"actor", "Actor", ""},
	{"action", "Action", ""},
	{"object", "Object", ""},
	{"seq", "Entry", ""},
	{"hash", "Hash", ""},
	{"models", "Models", ""},
	{"code", "Error", ""},
	{"since", "Since", ""},
	{"calls", "Calls", ""},
	{"failed", "Failed", ""},
	{"minutes", "Within", " minutes"},
	{"version", "Version", ""},
	{"seenAt", "Last seen", ""},
	{"setting", "Setting", ""},
	{"where", "Place", ""},
	{"externalUserId", "End user", ""},
	{"agentId", "Agent", ""},
	{"spaceId", "Space", ""},
	{"accountId", "Account", ""},
	{"time", "When", ""},
}

// News are an event and what the store has about its objects, for people.
type news struct {
	kind, event string
	webhook     stoa.Webhook
	data        map[string]string // values of members; lists are joined
	names       map[string]string // names of objects by id
	zone        *time.Location    // time zone of the agent; nil if unknown
}

// readNews returns the news of a delivery. It reads when the mail is sent, so that a mail contains no
// text of a deleted session; missing objects are left out.
func readNews(ctx context.Context, tx *store.Tx, w stoa.Webhook, of store.Delivery, texts bool) (n news, err error) {
	var body struct {
		Timestamp string         `json:"timestamp"`
		Data      map[string]any `json:"data"`
	}
	in := json.NewDecoder(strings.NewReader(of.Body))
	in.UseNumber()
	_ = in.Decode(&body) // cannot fail, because this package wrote the body
	n = news{kind: of.Type, event: of.EventID, webhook: w, data: map[string]string{"time": body.Timestamp}, names: map[string]string{}}
	n.add("", body.Data)
	ids := map[string][]string{}
	for _, v := range n.data {
		prefix, _, _ := strings.Cut(v, "_")
		if kind := named[prefix]; kind != "" {
			ids[kind] = append(ids[kind], v)
		}
	}
	for kind, list := range ids {
		from := w.AccountID
		if w.Service && kind == store.NamedAccounts { // the customer of an alert
			from = ""
		}
		found, err := tx.Work().Names(ctx, from, kind, list)
		if err != nil {
			return n, err
		}
		maps.Copy(n.names, found)
	}
	if id := n.data["webhookId"]; id != "" {
		other, err := tx.Operations().Webhook(ctx, w.AccountID, id)
		if err != nil && stoa.CodeOf(err) != stoa.CodeWebhookNotFound {
			return n, err
		}
		to, isMail := other.MailAddress()
		if u, err := url.Parse(other.URL); err == nil && !isMail {
			to = u.Host // because the rest of an address can be a secret
		}
		n.names[id] = cmp.Or(other.Description, to)
	}
	return n, n.readSession(ctx, tx, texts)
}

func (n *news) add(prefix string, data map[string]any) {
	for name, v := range data {
		switch v := v.(type) {
		case map[string]any:
			n.add(name+".", v)
		case []any:
			list := make([]string, len(v))
			for i, of := range v {
				list[i] = fmt.Sprint(of)
			}
			n.data[prefix+name] = strings.Join(list, ", ")
		case nil:
		default:
			n.data[prefix+name] = fmt.Sprint(v)
		}
	}
}

// readSession adds the turn of a session, and the time zone of the agent.
func (n *news) readSession(ctx context.Context, tx *store.Tx, texts bool) error {
	agent, err := tx.Setup().Agent(ctx, n.webhook.AccountID, n.data["agentId"])
	if err == nil && agent.Timezone != "" && agent.Timezone != "UTC" {
		n.zone, _ = time.LoadLocation(agent.Timezone)
	}
	if err != nil || n.data["sessionId"] == "" {
		return unlessMissing(err)
	}
	row, err := tx.Work().Session(ctx, n.webhook.AccountID, agent.ID, n.data["sessionId"])
	if err != nil {
		return unlessMissing(err)
	}
	turn := row.Turn
	if number, _ := strconv.ParseInt(n.data["turn"], 10, 64); number > 0 && number != turn.Number { // the session has continued
		list, _, err := tx.Work().Turns(ctx, row.ID, number-1, 1, false)
		if err != nil || len(list) == 0 {
			return err
		}
		turn = list[0]
	}
	if turn.Status != stoa.SessionRunning {
		n.data["costMicro"] = strconv.FormatInt(int64(turn.Spent), 10)
	}
	if turn.Failure != nil {
		n.data["failure"] = cmp.Or(turn.Failure.Message, string(turn.Failure.Code))
	}
	if !texts {
		return nil
	}
	if in := row.Pending; in != nil && in.ID == n.data["pendingInput.id"] {
		n.data["prompt"] = in.Prompt
	}
	question, _, err := tx.Work().Message(ctx, row.ID, turn.MessageID)
	if err != nil {
		return err
	}
	reply, _, err := tx.Work().TurnReply(ctx, row.ID, turn.Number)
	n.data["question"], n.data["reply"] = question.Text, reply.Text
	return err
}

func unlessMissing(err error) error {
	if code := stoa.CodeOf(err); code == stoa.CodeAgentNotFound || code == stoa.CodeSessionNotFound {
		return nil
	}
	return err
}

var placeholder = regexp.MustCompile(`\{([Aa])n? ([^}]+)\}`)

// Sentence says what an event is, for people, without a final point and without names.
func Sentence(kind string) string { return (&news{kind: kind}).sentence() }

func (n *news) sentence() string {
	text := sentences[n.kind]
	if text == "" {
		return "Event " + n.kind // a newer version of the service emitted it
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		of := placeholder.FindStringSubmatch(found)
		member := nouns[of[2]]
		name := n.names[n.data[member]]
		if !strings.HasSuffix(member, "Id") {
			name = n.data[member]
		}
		if name = mail.Line(name, maxName); name == "" {
			return strings.Trim(found, "{}")
		}
		article := map[string]string{"A": "The ", "a": "the "}[of[1]]
		return article + of[2] + " “" + name + "”"
	})
}

// mail returns the subject and the text of a mail. base is the origin of the console; without it there are no
// links.
func (n *news) mail(base string) (subject, text string) {
	sentence := n.sentence()
	subject = "Stoa: " + sentence
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n", sentence)
	for _, f := range facts {
		v := n.value(f.member)
		if v == "" || v == "0" || isID(f.member) && n.names[n.data[f.member]] == "" || strings.Contains(sentence, "“"+v+"”") {
			continue
		}
		fmt.Fprintf(&b, "%s: %s%s\n", f.label, v, f.unit)
	}
	if q := mail.Line(n.data["question"], maxTopic); q != "" {
		subject += ": " + q
	}
	if path := page(n.data, n.kind); base != "" && path != "" {
		fmt.Fprintf(&b, "\n%s/console#/%s\n", base, path)
	}
	b.WriteString("\nIds:")
	for _, name := range slices.Sorted(maps.Keys(n.data)) {
		if isID(name) {
			b.WriteString(" " + mail.Line(n.data[name], maxName))
		}
	}
	fmt.Fprintf(&b, " %s\n\n-- \nYou receive the events of the account %s by mail from the webhook %s. An owner of the account can change that", n.event, cmp.Or(n.value("accountId"), n.webhook.AccountID), n.webhook.ID)
	if base != "" {
		fmt.Fprintf(&b, ":\n%s/console#/webhooks/%s", base, url.PathEscape(n.webhook.ID))
	} else {
		b.WriteString(".")
	}
	b.WriteString("\n")
	return subject, b.String()
}

// isID reports whether a member is the id of an object. Two others have such names: the caller chooses
// that of an end user, and an audit log can be that of the service.
func isID(member string) bool {
	return strings.HasSuffix(member, "Id") && member != "externalUserId" && member != "auditId"
}

func (n *news) value(member string) string {
	v := n.data[member]
	switch at, err := time.Parse(time.RFC3339, v); {
	case err == nil:
		text := at.UTC().Format("2006-01-02 15:04 UTC")
		if n.zone != nil {
			text += at.In(n.zone).Format(" (2006-01-02 15:04 ") + n.zone.String() + ")"
		}
		return text
	case n.names[v] != "":
		return mail.Line(n.names[v], maxName)
	case strings.HasSuffix(member, "Micro"):
		credits, _ := strconv.ParseInt(v, 10, 64)
		if v != "" {
			v = stoa.Credits(credits).String() + " credits"
		}
	case strings.HasSuffix(strings.ToLower(member), "reason"), slices.Contains([]string{"status", "scope", "pendingInput.kind"}, member):
		v = strings.ReplaceAll(v, "_", " ")
	}
	return mail.Line(v, maxText)
}

// AlertPage returns the page of the console about an alert, after "#/".
func AlertPage(kind, subject string) string {
	name := map[string]string{BalanceLow: "customerId", ProviderDown: "provider", NodeLost: "nodeId", ConfigRefused: "nodeId"}[kind]
	return page(map[string]string{name: subject}, kind)
}

// page returns the page of the console about an event, after "#/"; empty if there is none.
func page(data map[string]string, kind string) string {
	at := func(name string) string { return url.PathEscape(data[name]) }
	switch {
	case data["sessionId"] != "":
		return "agents/" + at("agentId") + "/sessions/" + at("sessionId")
	case data["taskId"] != "":
		return "agents/" + at("agentId") + "/tasks/" + at("taskId")
	case data["connectionId"] != "":
		return "connections/" + at("connectionId")
	case data["budgetId"] != "":
		return "budgets"
	case data["keyId"] != "":
		return "keys"
	case data["webhookId"] != "":
		return "webhooks/" + at("webhookId")
	case kind == BalanceLow:
		return "accounts/" + at("customerId")
	case data["provider"] != "":
		return "providers"
	case data["nodeId"] != "":
		return "nodes"
	case kind == ErrorsHigh:
		return "requests"
	case kind == CreditsLow || kind == CreditsExhausted:
		return "credits"
	case kind == AuditAnchor || kind == AuditRecorded:
		return "audit"
	}
	return ""
}
