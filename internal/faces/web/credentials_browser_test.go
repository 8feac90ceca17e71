package web_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/fakemcp"
)

// own contains the objects of a stage for secrets of sessions: connections that require
// them (shop), accept them (notes) and reject them (plain), and secrets.
type own struct {
	shop, notes string // connections
	ann, all    string // secrets: of one end user, of everybody
	agent       string // its path in the console
}

// takesSecrets gives the agent a tool of each connection.
func (st stage) takesSecrets(t *testing.T) (o own) {
	t.Helper()
	f := fakemcp.Start(t)
	var tools []any
	connect := func(name, perSession string) string {
		var c contract.Connection
		st.c.Want(201, "POST", "/api/v1/connections", map[string]any{"kind": "mcp", "name": name, "url": f.URL, "credentialsPerSession": perSession}).JSON(&c)
		path := "/api/v1/connections/" + c.ID
		st.c.Want(200, "POST", path+"/refresh", nil)
		var list contract.ConnectionToolList
		st.c.Want(200, "GET", path+"/tools", nil).JSON(&list)
		for _, tool := range list.Data {
			if tool.Name == "read" {
				st.c.Want(200, "POST", path+"/tools/review", map[string]any{"tools": []any{map[string]any{"name": "read", "sha256": tool.Sha256, "decision": "approve", "policy": "by_annotations"}}})
			}
		}
		tools = append(tools, map[string]any{"type": "connection", "connectionId": c.ID, "allow": []string{"read"}})
		return c.ID
	}
	secret := func(name, kind, origin string, more map[string]any) string {
		body := map[string]any{"name": name, "kind": kind, "origin": origin, "value": "correct-horse-battery-of-" + name}
		for k, v := range more {
			body[k] = v
		}
		var s contract.Secret
		st.c.Want(201, "POST", "/api/v1/secrets", body).JSON(&s)
		return s.ID
	}
	o.shop, o.notes = connect("shop", "required"), connect("notes", "optional")
	connect("plain", "off")
	st.c.Want(200, "PATCH", st.agent, map[string]any{"tools": tools})
	o.ann, o.all = secret("ann", "bearer", f.URL, map[string]any{"externalUserId": "user-7"}), secret("all", "bearer", f.URL, nil)
	secret("far", "bearer", "https://mcp.example.com", nil)
	secret("oauth", "token", f.URL, nil)
	var other contract.Space
	st.c.Want(201, "POST", "/api/v1/spaces", map[string]any{"name": "Workshop"}).JSON(&other)
	secret("workshop", "bearer", f.URL, map[string]any{"spaceId": other.ID})
	o.agent = "agents/" + strings.TrimPrefix(st.agent, "/api/v1/api-agents/")
	return o
}

// offers waits until a connection has a field with these secrets, in any order.
func (p *tab) offers(connection string, choices ...string) {
	p.t.Helper()
	p.see(fmt.Sprintf(`[...document.querySelectorAll("#own-%s option")].map((o) => o.innerText.trim()).sort().join("|") === %q.split("|").sort().join("|")`, connection, strings.Join(choices, "|")))
}

// uses waits until the page says which secret a connection uses.
func (p *tab) uses(line string) {
	p.t.Helper()
	p.see(fmt.Sprintf(`[...(%s?.querySelectorAll("li") ?? [])].some((li) => li.innerText.trim().replace(/\s+/g, " ") === %q)`, ownSecrets, line))
}

const (
	ownSecrets = `document.querySelector("[aria-label='Session secrets']")`
	annSaid    = "ann …-ann, for user-7"
	allSaid    = "all …-all"
)

func TestASessionIsGivenASecretInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t, onLoopback)
			o := st.takesSecrets(t)
			p := signIn(t, browser, st.h.URL, st.h.Key, o.agent+"/sessions", l)
			p.allow("404", "409", "422")
			p.offers(o.shop, "Choose a secret", annSaid, allSaid)
			p.offers(o.notes, "None", annSaid, allSaid)
			p.see(`document.querySelectorAll("form select").length === 2`)
			p.see(`document.querySelector("#own-` + o.shop + `-hint").innerText === "Without a secret, its tools are withheld." && document.querySelector("#own-` + o.notes + `-hint").innerText === "Without one, the connection's secret is used."`)
			p.fits()
			p.shot("start")

			// The error is shown at its field, and the input is kept.
			p.choose("#own-"+o.shop, o.ann)
			p.choose("#own-"+o.notes, o.all)
			p.fill("#start", `call: shop__read {}`)
			p.press("Start")
			p.see(`document.querySelector("#own-` + o.shop + `-problem")?.innerText === "The secret is for another external user." && document.querySelectorAll(".problem, .notice.failed").length === 1 && document.querySelector("#start").value !== ""`)
			p.fits()
			p.shot("another end user")
			p.fill("#start-user", "user-7")
			p.press("Start")
			p.uses("shop uses ann …-ann for user-7")
			p.uses("notes uses all …-all")
			p.see(ownSecrets + `.querySelector("a[href='#/connections/` + o.shop + `']").innerText === "shop" && ` + ownSecrets + `.querySelectorAll("a[href='#/connections/secrets']").length === 2`)
			p.says("completed")
			p.fits()
			p.shot("session")
			var list contract.SessionList
			st.c.Want(200, "GET", st.agent+"/sessions", nil).JSON(&list)
			var made contract.Session
			st.c.Want(200, "GET", st.agent+"/sessions/"+list.Data[0].ID, nil).JSON(&made)
			if own, _ := made.Credentials.Get(); len(own) != 2 || own[o.shop] != o.ann || own[o.notes] != o.all || orEmpty(made.ExternalUserID.Get()) != "user-7" {
				t.Errorf("%+v", made)
			}

			// A deleted secret is said to be deleted; of one that no call names the name is gone, too.
			st.c.Want(204, "DELETE", "/api/v1/secrets/"+o.ann, nil)
			st.c.Want(204, "DELETE", "/api/v1/secrets/"+o.all, nil)
			p.open(o.agent + "/sessions")
			p.says("Secret for shop")
			p.says("There is no secret for")
			p.open(o.agent + "/sessions/" + made.ID)
			p.uses("shop uses ann deleted")
			p.uses("notes uses " + o.all + " deleted")
			p.fits()
			p.shot("deleted")

			// A session without its own secrets does not show them.
			st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": "Hello", "title": "without"}).JSON(&made)
			p.open(o.agent + "/sessions/" + made.ID)
			p.see(`document.querySelector(".session-title")?.innerText === "without" && !` + ownSecrets)
			p.see(`document.title.startsWith("without ·") && !!document.querySelector("main a[href='#/sessions']")`)

			// A key without the scope for secrets gets a notice.
			weak, _ := st.h.NewKey(st.h.Account.ID, "agents:read", "sessions:read", "sessions:write", "connections:read")
			p = signIn(t, browser, st.h.URL, weak, o.agent+"/sessions", l)
			p.says("You cannot choose secrets with this key, which lacks the scope secrets:write. Sessions can have their own secrets for notes, shop. Without one, tools of shop are withheld.")
			p.see(`!document.querySelector("form select, #start-user")`)
			p.shot("without the scope")
		})
	}
}

func TestATaskIsGivenASecretInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t, onLoopback)
	o := st.takesSecrets(t)
	p := signIn(t, browser, st.h.URL, st.h.Key, o.agent+"/tasks", sizes()[0])
	p.allow("404")
	own := func() map[string]string {
		t.Helper()
		var list contract.ScheduledTaskList
		st.c.Want(200, "GET", st.agent+"/scheduled-tasks", nil).JSON(&list)
		var task contract.ScheduledTask
		st.c.Want(200, "GET", st.agent+"/scheduled-tasks/"+list.Data[0].ID, nil).JSON(&task)
		own, _ := task.Credentials.Get()
		return own
	}
	save := func() {
		t.Helper()
		p.press("Save")
		p.see(`!document.querySelector("dialog")`)
	}

	// What is for one end user is nothing for a task.
	p.press("Schedule a task")
	p.offers(o.shop, "Choose a secret", allSaid)
	p.fill("#task-name", "Report")
	p.fill("#task-message", "Write it.")
	p.choose("#own-"+o.shop, o.all)
	p.everywhere("form")
	p.press("Schedule the task")
	p.uses("shop uses all …-all")
	p.see(`document.querySelector("dl.facts").innerText.includes("Secrets of its sessions")`)
	p.everywhere("task")
	if own := own(); len(own) != 1 || own[o.shop] != o.all {
		t.Errorf("%v", own)
	}
	p.press("Change")
	p.see(`document.querySelector("#own-` + o.shop + `")?.value === "` + o.all + `"`)
	p.choose("#own-"+o.notes, o.all)
	save()
	p.uses("notes uses all …-all")
	if own := own(); len(own) != 2 || own[o.notes] != o.all {
		t.Errorf("%v", own)
	}

	// What it has is sent only when it differs, so a deleted one is in the way of nothing else.
	st.c.Want(204, "DELETE", "/api/v1/secrets/"+o.all, nil)
	p.press("Change")
	p.offers(o.shop, "Choose a secret", "A deleted secret")
	p.fill("#task-name", "Weekly report")
	save()
	p.says("Weekly report")
	p.press("Change")
	p.choose("#own-"+o.notes, "")
	p.press("Save")
	p.see(`document.querySelector("#own-` + o.shop + `-problem")?.innerText.includes("no such secret") && document.querySelectorAll(".problem, .notice.failed").length === 1`)
	p.everywhere("a deleted secret")
	p.choose("#own-"+o.shop, "")
	save()
	p.see(`!` + ownSecrets + ` && !document.body.innerText.includes("Secrets of its sessions")`)
	if own := own(); len(own) != 0 {
		t.Errorf("%v", own)
	}
}

func TestAnEmbedIsGivenASecretInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, kind := range []struct{ path, make, submit string }{
		{"embed-urls", "Create link", "Create the link"},
		{"embed-sessions", "Create token", "Create the token"},
	} {
		t.Run(kind.path, func(t *testing.T) {
			st := newStage(t, onLoopback)
			o := st.takesSecrets(t)
			p := signIn(t, browser, st.h.URL, st.h.Key, o.agent+"/embeds/"+kind.path, sizes()[0])
			p.allow("404", "409", "422")
			p.press(kind.make)
			p.offers(o.shop, "Choose a secret", annSaid, allSaid)
			p.fill("#embed-origins", "https://www.example.com")
			p.fill("#embed-user", "user-8")
			p.choose("#own-"+o.shop, o.ann)
			p.choose("#own-"+o.notes, o.all)
			p.press(kind.submit)
			p.see(`document.querySelector("#own-` + o.shop + `-problem")?.innerText === "The secret is for another external user." && document.querySelectorAll(".problem, .notice.failed").length === 1`)
			p.everywhere("another visitor")
			p.fill("#embed-user", "user-7")
			p.press(kind.submit)
			p.press("Done")
			var list struct{ Data []struct{ ID string } }
			st.c.Want(200, "GET", st.agent+"/"+kind.path, nil).JSON(&list)
			var made struct{ Credentials map[string]string }
			st.c.Want(200, "GET", st.agent+"/"+kind.path+"/"+list.Data[0].ID, nil).JSON(&made)
			if len(list.Data) != 1 || len(made.Credentials) != 2 || made.Credentials[o.shop] != o.ann || made.Credentials[o.notes] != o.all {
				t.Errorf("%+v %+v", list, made)
			}
			st.c.Want(204, "DELETE", "/api/v1/secrets/"+o.all, nil)
			p.row("user-7", "Details")
			p.uses("shop uses ann …-ann for user-7")
			p.uses("notes uses " + o.all + " deleted")
			p.everywhere("details")
			p.press("Done")

			// One without its own secrets does not show them.
			st.c.Want(201, "POST", st.agent+"/"+kind.path, map[string]any{"allowedOrigins": []string{"https://www.example.com"}, "externalUserId": "user-9"})
			p.open(o.agent + "/tasks")
			p.says("No scheduled tasks yet")
			p.open(o.agent + "/embeds/" + kind.path)
			p.row("user-9", "Details")
			p.see(`document.querySelector("dialog dl")?.innerText.includes("user-9") && !document.querySelector("dialog").innerText.includes("Secrets") && !` + ownSecrets)
		})
	}
}

func TestATagIsGivenASecretInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t, onLoopback)
	o := st.takesSecrets(t)
	p := signIn(t, browser, st.h.URL, st.h.Key, o.agent+"/embeds/embed-tags", sizes()[0])
	p.allow("404")
	own := func() map[string]string {
		t.Helper()
		var list contract.EmbedTagList
		st.c.Want(200, "GET", st.agent+"/embed-tags", nil).JSON(&list)
		var tag contract.EmbedTag
		st.c.Want(200, "GET", st.agent+"/embed-tags/"+list.Data[0].ID, nil).JSON(&tag)
		own, _ := tag.Credentials.Get()
		return own
	}

	// Its visitors have no external user, so secrets of one end user are not offered.
	p.press("Create script tag")
	p.offers(o.shop, "Choose a secret", allSaid)
	p.fill("#tag-origins", "https://www.example.com")
	p.choose("#own-"+o.shop, o.all)
	p.everywhere("form")
	p.see(`(document.querySelector("button[form=tag-form]").click(), true)`)
	p.uses("shop uses all …-all")
	p.everywhere("snippet")
	if own := own(); len(own) != 1 || own[o.shop] != o.all {
		t.Errorf("%v", own)
	}
	p.press("Done")
	p.press("Edit")
	p.see(`document.querySelector("#own-` + o.shop + `")?.value === "` + o.all + `"`)
	p.choose("#own-"+o.notes, o.all)
	st.c.Want(204, "DELETE", "/api/v1/secrets/"+o.all, nil)
	p.press("Save")
	p.see(`document.querySelectorAll(".field .problem").length === 1 && document.querySelector(".field .problem").innerText.includes("no such secret")`)
	p.choose("#own-"+o.notes, "")
	p.choose("#own-"+o.shop, "")
	p.press("Save")
	p.says("Open preview")
	if own := own(); len(own) != 0 {
		t.Errorf("%v", own)
	}
	p.press("Done")
	p.press("Snippet")
	p.see(`document.querySelector("dialog")?.innerText.includes("Open preview") && !` + ownSecrets)
}

func TestSettingsAreTriedWithASecret(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t, onLoopback)
	o := st.takesSecrets(t)
	p := signIn(t, browser, st.h.URL, st.h.Key, o.agent+"/settings", sizes()[0])
	p.allow("404")
	p.offers(o.shop, "Choose a secret", allSaid)
	p.choose("#own-"+o.shop, o.all)
	p.fill("#try-message", "Hello")
	p.everywhere("before")
	p.press("Send")
	p.says("Open the session")
	p.see(`!document.querySelector("#own-` + o.shop + `")`)
	own := func() (map[string]string, int) {
		t.Helper()
		var list contract.SessionList
		st.c.Want(200, "GET", st.agent+"/sessions", nil).JSON(&list)
		var made contract.Session
		st.c.Want(200, "GET", st.agent+"/sessions/"+list.Data[0].ID, nil).JSON(&made)
		own, _ := made.Credentials.Get()
		return own, len(list.Data)
	}
	if own, _ := own(); len(own) != 1 || own[o.shop] != o.all {
		t.Errorf("%v", own)
	}

	// What a new conversation would have stands there again, and what is wrong with it, too.
	st.c.Want(204, "DELETE", "/api/v1/secrets/"+o.all, nil)
	p.press("New")
	p.fill("#try-message", "Hello again")
	p.press("Send")
	p.see(`document.querySelector("#own-` + o.shop + `-problem")?.innerText.includes("no such secret") && !document.querySelector(".notice.failed")`)
	p.everywhere("a deleted secret")

	// Removing a tool removes its field and its selection.
	p.fill("#tools", "[]")
	p.see(`!document.querySelector("#own-` + o.shop + `")`)
	p.press("Send")
	p.says("Open the session")
	if own, sessions := own(); len(own) != 0 || sessions != 2 {
		t.Errorf("%v, %d sessions", own, sessions)
	}
}
