package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/scheduler"
	"stoa/internal/agents/session"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// smallLimits are limits that a test can reach.
func smallLimits() config.Limits {
	l := config.Defaults().Limits
	l.Body = 64 << 10
	l.NameCharacters, l.DescriptionCharacters, l.InstructionsCharacters, l.MessageCharacters = 10, 10, 20, 20
	l.DrivePath, l.DriveSegment, l.File, l.Drive, l.DrivesPerAccount, l.DriveFiles = 30, 20, 100, 150, 200, 3
	l.QueuedSessions, l.QueuedMessages = 3, 1
	l.SchedulesPerAgent, l.SchedulesPerAccount, l.ScheduleInterval = 1, 2, 5*time.Minute
	l.EventStreamsPerKey, l.EventStreamsPerAccount, l.VisitorStreamsPerAccount = 1, 2, 1
	l.KeysPerAccount, l.EndedKeysPerAccount, l.SpacesPerAccount, l.AgentsPerAccount, l.AgentVersions, l.EmbedsPerDay = 4, 3, 2, 3, 2, 2
	return l
}

// limited starts a service with small limits; its sessions stay queued.
func limited(t *testing.T) (*apitest.Service, config.Limits) {
	l := smallLimits()
	home := storetest.New(t)
	home.Config.Quota = store.Quota{
		Keys: l.KeysPerAccount, EndedKeys: l.EndedKeysPerAccount, Spaces: l.SpacesPerAccount, Agents: l.AgentsPerAccount, AgentVersions: l.AgentVersions,
		Tasks: l.SchedulesPerAccount, Embeds: l.EmbedsPerDay,
	}
	return start(t, apitest.Config{
		Home: &home, Idle: true,
		Server: func(s *api.Server) { s.Limits, s.MaxBody = l, int64(l.Body) },
		Sessions: func(c *session.Config) {
			c.Limits = session.LimitsOf(l)
		},
		Schedules: func(c *scheduler.Config) { c.PerAgent, c.Interval = l.SchedulesPerAgent, l.ScheduleInterval },
		Drive: drive.Limits{
			MaxPath: int(l.DrivePath), MaxSegment: int(l.DriveSegment), MaxFileBytes: int64(l.File), MaxBytes: int64(l.Drive),
			MaxFiles: int64(l.DriveFiles), MaxAccountBytes: int64(l.DrivesPerAccount),
		},
	}), l
}

// A limitCase contains the place where a limit of the configuration is published, and a
// request that reaches it.
type limitCase struct {
	published string             // member of limits in GET /meta
	provoke   func(t *testing.T) // nil: it ends something after a time, or after steps; tests of package agent provoke it
}

// TestEveryLimitIsPublishedAndProvoked goes through the members of config.Limits:
// each is in GET /meta with the value in force, in docs/settings-limits.md, and
// refuses what is beyond it. A new limit fails here until it has a line below.
func TestEveryLimitIsPublishedAndProvoked(t *testing.T) {
	t.Parallel()
	h, l := limited(t)
	a := newAuthor(t, h, h.Client(t), nil)
	long := strings.Repeat("x", 21)
	agent := func(more object) object {
		body := object{"spaceId": a.space(t), "name": "n", "instructions": "i"}
		for k, v := range more {
			body[k] = v
		}
		return body
	}
	file := func(path string, size int) (string, object) {
		return a.agent + "/drive/files", object{"path": path, "content": strings.Repeat("x", size)}
	}
	refused := func(code stoa.Code, method, path string, body object) func(*testing.T) {
		return func(t *testing.T) { t.Helper(); a.WantError(code, method, path, body) }
	}
	put := func(code stoa.Code, path string, size int) func(*testing.T) {
		to, body := file(path, size)
		return refused(code, "PUT", to, body)
	}
	task := object{"name": "n", "message": "m", "schedule": object{"type": "interval", "everySeconds": 600}}
	cases := map[string]limitCase{
		"body":                   {"maxBodyBytes", refused(stoa.CodeTooLarge, "POST", "/api/v1/spaces", object{"name": strings.Repeat("x", 70<<10)})},
		"nameCharacters":         {"maxNameCharacters", refused(stoa.CodeInvalidValue, "POST", "/api/v1/api-agents", agent(object{"name": long}))},
		"descriptionCharacters":  {"maxDescriptionCharacters", refused(stoa.CodeInvalidValue, "POST", "/api/v1/api-agents", agent(object{"description": long}))},
		"instructionsCharacters": {"maxInstructionsCharacters", refused(stoa.CodeInvalidValue, "POST", "/api/v1/api-agents", agent(object{"instructions": long}))},
		"messageCharacters":      {"maxMessageCharacters", refused(stoa.CodeInvalidValue, "POST", a.agent+"/sessions", object{"message": long})},
		"drivePath":              {"maxDrivePathBytes", put(stoa.CodeInvalidPath, "aaaaaaaaaa/bbbbbbbbbb/ccccccccccc", 1)},
		"driveSegment":           {"maxDriveSegmentBytes", put(stoa.CodeInvalidPath, long, 1)},
		"file":                   {"maxFileBytes", put(stoa.CodeTooLarge, "f", 101)},
		"drive": {"maxDriveBytes", func(t *testing.T) {
			to, body := file("a", 90)
			a.Want(201, "PUT", to, body)
			put(stoa.CodeStorageFull, "b", 61)(t)
		}},
		"drivesPerAccount": {"maxDriveBytesPerAccount", func(t *testing.T) { // 90 are in the first drive
			other := newAuthor(t, h, h.Client(t), nil)
			other.Want(201, "PUT", other.agent+"/drive/files", object{"path": "a", "content": strings.Repeat("x", 100)})
			other.WantError(stoa.CodeStorageFull, "PUT", other.agent+"/drive/files", object{"path": "b", "content": strings.Repeat("x", 11)})
			other.Want(201, "PUT", other.agent+"/drive/files", object{"path": "b", "content": strings.Repeat("x", 8)})
			other.Want(204, "DELETE", other.agent, nil)
		}},
		"driveFiles": {"maxDriveFiles", func(t *testing.T) {
			for _, name := range []string{"b", "c"} {
				to, body := file(name, 1)
				a.Want(201, "PUT", to, body)
			}
			put(stoa.CodeStorageFull, "d", 1)(t)
		}},
		"queuedSessions": {"maxQueuedSessions", func(t *testing.T) {
			for range l.QueuedSessions {
				a.Want(202, "POST", a.agent+"/sessions", object{"message": "m"})
			}
			a.WantError(stoa.CodeTooManySessions, "POST", a.agent+"/sessions", object{"message": "m"})
		}},
		"queuedMessages": {"maxQueuedMessages", func(t *testing.T) {
			var list page[contract.Session]
			a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&list)
			messages := a.agent + "/sessions/" + list.Data[0].ID + "/messages"
			a.Want(202, "POST", messages, object{"message": "m"})
			a.WantError(stoa.CodeSessionBusy, "POST", messages, object{"message": "m"})
		}},
		"queueWait":               {"queueSeconds", nil},
		"turnSteps":               {"maxTurnSteps", nil},
		"turnTime":                {"maxTurnSeconds", nil},
		"defaultTurnCreditsMicro": {"defaultTurnCreditsMicro", nil}, // TestATurnWithoutACapHasTheDefault
		"inputWait":               {"inputSeconds", nil},
		"schedulesPerAgent": {"maxScheduledTasks", func(t *testing.T) {
			a.Want(201, "POST", a.agent+"/scheduled-tasks", task)
			a.WantError(stoa.CodeTooManyTasks, "POST", a.agent+"/scheduled-tasks", task)
		}},
		"schedulesPerAccount": {"maxScheduledTasksPerAccount", func(t *testing.T) { // one is there
			other, third := newAuthor(t, h, h.Client(t), nil), newAuthor(t, h, h.Client(t), nil)
			other.Want(201, "POST", other.agent+"/scheduled-tasks", task)
			third.WantError(stoa.CodeLimitReached, "POST", third.agent+"/scheduled-tasks", task)
			other.Want(204, "DELETE", other.agent, nil)
			third.Want(204, "DELETE", third.agent, nil)
		}},
		"scheduleInterval": {"minScheduleSeconds", refused(stoa.CodeInvalidValue, "POST", a.agent+"/scheduled-tasks",
			object{"name": "n", "message": "m", "schedule": object{"type": "interval", "everySeconds": 60}})},
		"embedUrl":   {"embedUrlSeconds", nil},
		"embedToken": {"embedTokenSeconds", nil},
		"embedsPerDay": {"maxEmbedsPerDay", func(t *testing.T) {
			a.Want(200, "PATCH", a.agent, object{"embedEnabled": true})
			embed := object{"allowedOrigins": []string{"https://example.com"}}
			a.Want(201, "POST", a.agent+"/embed-urls", embed)
			a.Want(201, "POST", a.agent+"/embed-sessions", embed)
			a.WantError(stoa.CodeLimitReached, "POST", a.agent+"/embed-urls", embed)
			a.WantError(stoa.CodeLimitReached, "POST", a.agent+"/embed-sessions", embed)
		}},
		"eventStreamsPerKey": {"maxEventStreamsPerKey", func(t *testing.T) {
			path := a.anySession(t)
			defer a.follow(t, path, 0).close()
			a.With("Accept", "text/event-stream").WantError(stoa.CodeRateLimit, "GET", path+"/events", nil)
			a.WantError(stoa.CodeRateLimit, "GET", path+"?waitSeconds=60", nil)
		}},
		"eventStreamsPerAccount": {"maxEventStreamsPerAccount", func(t *testing.T) {
			path := a.anySession(t)
			for range l.EventStreamsPerAccount { // each with its own key
				key, _ := h.NewKey(h.Account.ID, "sessions:read")
				defer open(t, h, key, path, 0).close()
			}
			a.With("Accept", "text/event-stream").WantError(stoa.CodeRateLimit, "GET", path+"/events", nil)
			a.WantError(stoa.CodeRateLimit, "GET", path+"?waitSeconds=60", nil)
		}},
		"visitorStreamsPerAccount": {"maxVisitorStreamsPerAccount", func(t *testing.T) { // two agents, each with a visitor
			one, other := newAuthor(t, h, h.Client(t), nil), newAuthor(t, h, h.Client(t), nil)
			first, second := newVisit(t, one, nil), newVisit(t, other, nil)
			stream := openWith(t, h, first.chat+"/events?follow=true", http.Header{"Authorization": {"Bearer " + first.embed.Token}, "Origin": {site}})
			second.With("Accept", "text/event-stream").WantError(stoa.CodeRateLimit, "GET", second.chat+"/events", nil)
			a.follow(t, a.anySession(t), 0).close() // the account's own are counted apart
			one.Want(204, "DELETE", one.agent, nil)
			for range stream.blocks() { // it ends with its agent
			}
			other.Want(204, "DELETE", other.agent, nil)
		}},
		"bodiesInFlight":        {"maxBodiesInFlightBytes", nil}, // TestBodiesInFlightAreBounded
		"connections":           {"maxConnections", nil},         // TestConnectionsAreBounded of package listen
		"connectionsPerAddress": {"maxConnectionsPerAddress", nil},
		"keysPerAccount": {"maxKeys", func(t *testing.T) {
			key := object{"name": "k", "scopes": []string{"responses"}}
			var last contract.KeyWithSecret
			for range l.KeysPerAccount {
				r := a.Do("POST", "/api/v1/keys", key)
				if r.Status != 201 {
					break
				}
				r.JSON(&last)
			}
			a.WantError(stoa.CodeLimitReached, "POST", "/api/v1/keys", key)
			a.WantError(stoa.CodeLimitReached, "POST", "/api/v1/accounts/"+h.Account.ID+"/keys", key)
			if last.ID != "" {
				a.Want(201, "POST", "/api/v1/keys/"+last.ID+"/rotate", nil)
			}
		}},
		"endedKeysPerAccount": {"maxEndedKeys", func(t *testing.T) {
			var account contract.AccountWithKey
			a.Want(201, "POST", "/api/v1/accounts", object{"name": "customer"}).JSON(&account)
			c := h.ClientWith(t, account.Key.Secret)
			for range l.EndedKeysPerAccount {
				var key contract.KeyWithSecret
				c.Want(201, "POST", "/api/v1/keys", object{"name": "k", "scopes": []string{"responses"}}).JSON(&key)
				c.Want(204, "DELETE", "/api/v1/keys/"+key.ID, nil)
			}
			c.WantError(stoa.CodeLimitReached, "POST", "/api/v1/keys", object{"name": "k", "scopes": []string{"responses"}})
			c.Want(200, "GET", "/api/v1/keys", nil)
		}},
		"spacesPerAccount": {"maxSpaces", func(t *testing.T) {
			a.Want(201, "POST", "/api/v1/spaces", object{"name": "s"})
			a.WantError(stoa.CodeLimitReached, "POST", "/api/v1/spaces", object{"name": "s"})
		}},
		"agentsPerAccount": {"maxAgents", func(t *testing.T) {
			var made [2]contract.Agent
			a.Want(201, "POST", "/api/v1/api-agents", agent(nil)).JSON(&made[0])
			a.Want(201, "POST", a.agent+"/duplicate", nil).JSON(&made[1])
			a.WantError(stoa.CodeLimitReached, "POST", "/api/v1/api-agents", agent(nil))
			a.WantError(stoa.CodeLimitReached, "POST", a.agent+"/duplicate", nil)
			for _, m := range made {
				a.Want(204, "DELETE", "/api/v1/api-agents/"+m.ID, nil)
			}
		}},
		"agentVersions": {"maxAgentVersions", func(t *testing.T) {
			for i := range 3 {
				a.Want(200, "PATCH", a.agent, object{"instructions": fmt.Sprint("version ", i)})
			}
			var list page[contract.AgentVersion]
			a.Want(200, "GET", a.agent+"/versions", nil).JSON(&list)
			if len(list.Data) != l.AgentVersions || list.Data[0].Version != 4 {
				t.Errorf("%d versions are kept, the newest is %+v", len(list.Data), list.Data[0])
			}
			a.WantError(stoa.CodeNotFound, "GET", a.agent+"/versions/1", nil)
		}},
		"requestsKeptPerAccount": {"requestsKeptPerAccount", nil}, // requestlog.TestTheOldestRowsMakePlace
	}
	var meta struct{ Limits map[string]int64 }
	a.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	embeds := newAuthor(t, h, h.Client(t), nil)
	if got := newVisit(t, embeds, nil).embed.MaxCreditsMicro; orNone(got) != meta.Limits["defaultEmbedCreditsMicro"] || orNone(got) != 5_000_000 {
		t.Errorf("an embed without a cap may spend %d, and GET /meta says %d", orNone(got), meta.Limits["defaultEmbedCreditsMicro"])
	}
	embeds.Want(204, "DELETE", embeds.agent, nil)
	docs, err := os.ReadFile("../../../docs/settings-limits.md")
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		tags := v.Type().Field(i).Tag
		name, _, constant := strings.Cut(tags.Get("constant"), ",")
		if !constant {
			name = tags.Get("yaml")
		}
		c, ok := cases[name]
		if !ok {
			t.Errorf("limits.%s has no line in this test: publish it in GET /meta and say how a caller meets it", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			want := v.Field(i).Int()
			if d, ok := v.Field(i).Interface().(time.Duration); ok {
				want = int64(d / time.Second)
			}
			if got, ok := meta.Limits[c.published]; !ok || got != want {
				t.Errorf("GET /meta has %d for %s (there: %t), want %d", got, c.published, ok, want)
			}
			if strings.Contains(string(docs), "| `limits."+name+"` |") == constant {
				t.Error("docs/settings-limits.md must have a row for it, unless it is a constant")
			}
			if c.provoke != nil {
				c.provoke(t)
			}
		})
	}
	if v.NumField() != len(cases) {
		t.Errorf("config.Limits has %d members, this test %d", v.NumField(), len(cases))
	}
	fixed := []string{
		"maxPageSize", "idempotencySeconds", "searchMilliseconds", "defaultEmbedCreditsMicro", "maxEmbedTags", "maxHooks", "maxTestSets", "maxTestQuestions", "maxTestSetBytes", "maxEmbedLogos", "maxEmbedLogoBytes", "maxWebhooks", "maxMembers", "maxInvitations", "maxPendingPayments", "requestsKeptSeconds",
		"maxTools", "maxSearchedTools", "maxToolDefinitionTokens", "maxToolParametersBytes", "maxToolOutputBytes", "maxToolCallsPerStep", "maxToolCallsPerTurn", "maxToolCallsPerChat", "maxToolWaitsPerTurn", "maxInputWaitsPerAccount",
		"serverSessionIdleSeconds", "maxServerSessions", "maxServerCallsPerMinute", "maxServerCallsAtOnce", "maxShownResultBytes",
		"maxConfirmationSeconds", "maxPublicFields", "maxApprovalSeconds", "maxApprovalCommentCharacters", "maxShownArgumentsBytes",
		"maxSecrets", "maxConnectionsPerSpace", "maxConnectionOperations", "maxConnectionDocumentBytes", "maxConnectionTools", "maxConnectionTimeoutSeconds", "maxConnectionResultBytes", "maxConnectionConcurrent",
		"maxConnectionCallsPerMinute",
	} // no setting of the limits changes them
	for _, c := range cases {
		delete(meta.Limits, c.published)
	}
	if got := slices.Sorted(maps.Keys(meta.Limits)); !slices.Equal(got, slices.Sorted(slices.Values(fixed))) {
		t.Errorf("besides the settings GET /meta has %v, want %v", got, fixed)
	}
}

// TestLimitsDoNotMultiplyWithKeys: a limited key gets no more requests by
// creating keys or by rotating itself, and an account no more by having keys.
func TestLimitsDoNotMultiplyWithKeys(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Plans: []stoa.Plan{{ID: "pro", RequestsPerMinutePerAccount: 12}}})
	operator := h.Client(t)
	var root contract.KeyWithSecret
	operator.Want(201, "POST", "/api/v1/keys", object{"name": "r", "scopes": []string{"keys:write"}, "requestsPerMinute": 5}).JSON(&root)
	holder := h.ClientWith(t, root.Secret)
	var child, rotated contract.KeyWithSecret
	holder.Want(201, "POST", "/api/v1/keys", object{"name": "c"}).JSON(&child)      // 1
	holder.Want(201, "POST", "/api/v1/keys/"+root.ID+"/rotate", nil).JSON(&rotated) // 2
	h.ClientWith(t, child.Secret).Want(200, "GET", "/api/v1/users/me", nil)         // 3
	h.ClientWith(t, rotated.Secret).Want(200, "GET", "/api/v1/users/me", nil)       // 4
	h.ClientWith(t, child.Secret).Want(200, "GET", "/api/v1/users/me", nil)         // 5
	for _, secret := range []string{root.Secret, child.Secret, rotated.Secret} {
		h.ClientWith(t, secret).WantError(stoa.CodeRateLimit, "GET", "/api/v1/users/me", nil)
	}
	for range 6 { // with one for the first key, and five: twelve
		operator.Want(200, "GET", "/api/v1/users/me", nil)
	}
	other, _ := h.NewKey(h.Account.ID, "*")
	for _, c := range []*apitest.Client{operator, h.ClientWith(t, other)} {
		if e := c.WantError(stoa.CodeRateLimit, "GET", "/api/v1/users/me", nil); !strings.Contains(e.Message, "The keys of this account have reached their common limit of 12") {
			t.Errorf("the limit of the account is told as %q", e.Message)
		}
	}
}

// TestATemporaryOperatorStaysTemporary: an expiring operator's key cannot create an
// operator's key, or a key of its own account, with a later expiry; and a key with only
// keys:write cannot revoke a key with more scopes.
func TestATemporaryOperatorStaysTemporary(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	secret, key := h.NewKeyLike(stoa.Key{
		AccountID: h.Account.ID, Scopes: []string{stoa.ScopeOperator, "keys:write"}, ExpiresAt: time.Now().Add(time.Hour),
	})
	c := h.ClientWith(t, secret)
	later := "2099-01-01T00:00:00Z"
	c.WantError(stoa.CodeScope, "POST", "/api/v1/keys", object{"name": "k", "scopes": []string{"operator"}, "expiresAt": later})
	own := "/api/v1/accounts/" + h.Account.ID + "/keys"
	c.WantError(stoa.CodeScope, "POST", own, object{"name": "k", "scopes": []string{"operator", "*"}})
	c.WantError(stoa.CodeScope, "POST", own, object{"name": "k", "scopes": []string{"keys:write"}, "expiresAt": later})
	var made contract.KeyWithSecret
	c.Want(201, "POST", own, object{"name": "k", "scopes": []string{"keys:write"}}).JSON(&made)
	if got := made.ExpiresAt.MustGet().Time(); got.After(key.ExpiresAt) {
		t.Errorf("the new key expires at %v, after the one that created it", got)
	}
	var account contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "customer"}).JSON(&account)
	c.WantError(stoa.CodeScope, "POST", "/api/v1/accounts/"+account.ID+"/keys", object{"name": "k", "scopes": []string{"operator"}, "expiresAt": later})
	c.Want(201, "POST", "/api/v1/accounts/"+account.ID+"/keys", object{"name": "k", "scopes": []string{"*"}})

	narrow := h.ClientWith(t, made.Secret)
	narrow.WantError(stoa.CodeScope, "DELETE", "/api/v1/keys/"+key.ID, nil)
	narrow.WantError(stoa.CodeScope, "PATCH", "/api/v1/keys/"+key.ID, object{"scopes": []string{"keys:write"}})
	narrow.Want(204, "DELETE", "/api/v1/keys/"+made.ID, nil)
	c.Want(200, "GET", "/api/v1/users/me", nil)
}
