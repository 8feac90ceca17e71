package api_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// newCustomer makes an account and gives a client with its key.
func newCustomer(t *testing.T, h *apitest.Service) *apitest.Client {
	t.Helper()
	var made contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Acme", "grantMicro": 100_000_000}).JSON(&made)
	return h.ClientWith(t, made.Key.Secret)
}

// accountOf returns the id of the account of a client.
func accountOf(c *apitest.Client) string {
	var me contract.User
	c.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	return me.ID
}

func newSpace(t *testing.T, c *apitest.Client, body object) (space contract.Space) {
	t.Helper()
	c.Want(201, "POST", "/api/v1/spaces", body).JSON(&space)
	return space
}

func TestEveryAccountHasADefaultSpace(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := newCustomer(t, h)
	var spaces contract.SpaceList
	c.Want(200, "GET", "/api/v1/spaces", nil).JSON(&spaces)
	if len(spaces.Data) != 1 || spaces.HasMore {
		t.Fatalf("a new account has the spaces %+v", spaces)
	}
	first := spaces.Data[0].ID
	defaultSpace := func() string {
		var me contract.User
		c.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
		return orNone(me.DefaultSpaceID)
	}
	if got := defaultSpace(); got != first {
		t.Errorf("the default space is %q, want %s", got, first)
	}
	c.Want(204, "DELETE", "/api/v1/spaces/"+first, nil)
	second := defaultSpace()
	if second == first || second == "" {
		t.Errorf("after its deletion the default space is %q", second)
	}
	c.Want(200, "GET", "/api/v1/spaces/"+second, nil)
	if third := defaultSpace(); third != second {
		t.Errorf("it became another one by itself: %s, then %s", second, third)
	}
}

func TestASpaceIsChangedMemberByMember(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	made := newSpace(t, c, object{"name": "Support", "description": "all of it", "externalId": "team-7", "metadata": object{"a": "1", "b": "2"}})
	path := "/api/v1/spaces/" + made.ID
	first := c.Want(200, "GET", path, nil)
	var read contract.Space
	first.JSON(&read)
	if diff := cmp.Diff(fmt.Sprintf("%+v", made), fmt.Sprintf("%+v", read)); diff != "" {
		t.Errorf("what was made and what is read differ:\n%s", diff)
	}
	etag := first.Header.Get("ETag")
	c.With("If-None-Match", etag).Want(304, "GET", path, nil)
	c.With("If-None-Match", `"other"`).Want(200, "GET", path, nil)

	var s contract.Space
	r := c.With("If-Match", etag).Want(200, "PATCH", path, object{"description": nil, "metadata": object{"a": nil, "c": "3"}}).JSON(&s)
	if s.Name != "Support" || !s.Description.IsNull() || orNone(s.ExternalID) != "team-7" || !maps.Equal(s.Metadata, contract.Metadata{"b": "2", "c": "3"}) {
		t.Errorf("after the change it is %+v", s)
	}
	if r.Header.Get("ETag") == etag {
		t.Error("the ETag stayed the same")
	}
	c.With("If-Match", etag).WantError(stoa.CodePrecondition, "PATCH", path, object{"name": "late"})
	c.With("If-Match", "W/"+r.Header.Get("ETag")).WantError(stoa.CodePrecondition, "PATCH", path, object{"name": "weak"})
	s = contract.Space{}
	c.With("If-Match", "*").Want(200, "PATCH", path, object{"name": "Any", "metadata": nil, "externalId": nil}).JSON(&s)
	if s.Name != "Any" || len(s.Metadata) != 0 || !s.ExternalID.IsNull() {
		t.Errorf("after the second change it is %+v", s)
	}
	c.With("If-Match", etag).WantError(stoa.CodePrecondition, "DELETE", path, nil)
	c.With("If-Match", c.Want(200, "GET", path, nil).Header.Get("ETag")).Want(204, "DELETE", path, nil)
	c.With("If-Match", etag).WantError(stoa.CodeSpaceNotFound, "DELETE", path, nil)
	c.WantError(stoa.CodeSpaceNotFound, "DELETE", path, nil)
	c.WantError(stoa.CodeSpaceNotFound, "GET", path, nil)
	c.WantError(stoa.CodeSpaceNotFound, "PATCH", path, object{"name": "x"})
	c.WantError(stoa.CodeSpaceNotFound, "GET", path+"/agents", nil)
}

func TestAnExternalIDIsGivenOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"externalId": "x"})
	other := newAuthor(t, h, h.Client(t), nil)
	for _, test := range []struct {
		method, path string
		body         object
	}{
		{"POST", "/api/v1/spaces", object{"name": "two", "externalId": "x"}},
		{"POST", "/api/v1/api-agents", object{"spaceId": newSpace(t, a.Client, object{"name": "one", "externalId": "x"}).ID, "name": "n", "instructions": "i", "externalId": "x"}},
		{"PATCH", other.agent, object{"externalId": "x"}},
		{"PATCH", "/api/v1/spaces/" + newSpace(t, a.Client, object{"name": "two"}).ID, object{"externalId": "x"}},
	} {
		if e := a.WantError(stoa.CodeConflict, test.method, test.path, test.body); deref(e.Param) != "externalId" {
			t.Errorf("%s %s: param is %v", test.method, test.path, e.Param)
		}
	}
	// Another account has its own, and a deleted agent gives its back.
	newAuthor(t, h, newCustomer(t, h), object{"externalId": "x"})
	a.Want(204, "DELETE", a.agent, nil)
	a.Want(200, "PATCH", other.agent, object{"externalId": "x"})

	find := func(path string) int {
		var p page[object]
		a.Want(200, "GET", path, nil).JSON(&p)
		return len(p.Data)
	}
	for path, want := range map[string]int{
		"/api/v1/spaces?externalId=x": 1, "/api/v1/spaces?externalId=nobody": 0,
		"/api/v1/api-agents?externalId=x": 1, "/api/v1/api-agents?externalId=nobody": 0, "/api/v1/api-agents?spaceId=spc_nobody": 0,
	} {
		if got := find(path); got != want {
			t.Errorf("GET %s finds %d, want %d", path, got, want)
		}
	}
}

func TestAnAgentHasSensibleDefaults(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	var agent contract.Agent
	r := a.Want(200, "GET", a.agent, nil).JSON(&agent)
	if agent.Model != "auto" || agent.DriveAccess != "read_only" || !agent.EmbedEnabled || agent.Version != 1 ||
		!agent.Description.IsNull() || !agent.ExternalID.IsNull() || len(agent.Metadata) != 0 || !agent.Limits.MaxSteps.IsNull() {
		t.Errorf("it is %+v", agent)
	}
	a.With("If-None-Match", r.Header.Get("ETag")).Want(304, "GET", a.agent, nil)
	// null is the same as nothing at all
	var same contract.Agent
	a.Want(201, "POST", "/api/v1/api-agents", object{
		"spaceId": agent.SpaceID, "name": "Helper", "instructions": "Be brief.", "model": nil, "description": nil, "driveAccess": nil,
		"limits": nil, "embedEnabled": nil, "externalId": nil, "metadata": nil,
	}).JSON(&same)
	same.ID, same.CreatedAt, same.UpdatedAt = agent.ID, agent.CreatedAt, agent.UpdatedAt
	if fmt.Sprintf("%+v", same) != fmt.Sprintf("%+v", agent) {
		t.Errorf("with null it is %+v, without %+v", same, agent)
	}
}

func TestWhatAnAgentMayNotBe(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) {
		s.Limits = config.Defaults().Limits
		s.Limits.NameCharacters, s.Limits.DescriptionCharacters, s.Limits.InstructionsCharacters = 10, 10, 20
	}})
	a := newAuthor(t, h, h.Client(t), nil)
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	many := object{}
	for i := range 17 {
		many[fmt.Sprint(i)] = "x"
	}
	for _, test := range []struct {
		name  string
		body  object
		code  stoa.Code
		param string
	}{
		{"a name that is too long", object{"name": "01234567890"}, stoa.CodeInvalidValue, "name"},
		{"a description that is too long", object{"description": "01234567890"}, stoa.CodeInvalidValue, "description"},
		{"instructions that are too long", object{"instructions": strings.Repeat("ü", 21)}, stoa.CodeInvalidValue, "instructions"},
		{"no name", object{"name": ""}, stoa.CodeInvalidValue, "name"},
		{"a name of null", object{"name": nil}, stoa.CodeMissingParameter, "name"},
		{"an unknown model", object{"model": "gpt-5"}, stoa.CodeModelNotFound, "model"},
		{"an unknown access", object{"driveAccess": "none"}, stoa.CodeInvalidValue, "driveAccess"},
		{"a window that is nearly empty", object{"compactAt": 29}, stoa.CodeInvalidValue, "compactAt"},
		{"a window that is nearly full", object{"compactAt": 91}, stoa.CodeInvalidValue, "compactAt"},
		{"an unknown use by visitors", object{"visitorDrive": "read_write"}, stoa.CodeInvalidValue, "visitorDrive"},
		{"another's space", object{"spaceId": "spc_x"}, stoa.CodeSpaceNotFound, "spaceId"},
		{"too much metadata", object{"metadata": many}, stoa.CodeInvalidValue, "metadata"},
		{"a long name in the metadata", object{"metadata": object{strings.Repeat("x", 65): "x"}}, stoa.CodeInvalidValue, "metadata"},
		{"a long value in the metadata", object{"metadata": object{"x": strings.Repeat("x", 513)}}, stoa.CodeInvalidValue, "metadata.x"},
		{"a number in the metadata", object{"metadata": object{"x": 1}}, stoa.CodeInvalidType, "metadata.x"},
		{"a long external id", object{"externalId": strings.Repeat("x", 129)}, stoa.CodeInvalidValue, "externalId"},
		{"a limit above the service's", object{"limits": object{"maxSteps": 51}}, stoa.CodeInvalidValue, "limits.maxSteps"},
		{"a time above the service's", object{"limits": object{"timeoutSeconds": 601}}, stoa.CodeInvalidValue, "limits.timeoutSeconds"},
		{"a limit of nothing", object{"limits": object{"maxCreditsMicro": 0}}, stoa.CodeInvalidValue, "limits.maxCreditsMicro"},
		{"an unknown limit", object{"limits": object{"steps": 1}}, stoa.CodeUnknownField, "limits.steps"},
		{"an unknown member", object{"knowledge": []any{}}, stoa.CodeUnknownField, "knowledge"},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := object{"spaceId": agent.SpaceID, "name": "n", "instructions": "i"}
			maps.Copy(body, test.body)
			for method, path := range map[string]string{"POST": "/api/v1/api-agents", "PATCH": a.agent} {
				sent := body
				if method == "PATCH" {
					sent = test.body
				}
				if e := a.WantError(test.code, method, path, sent); deref(e.Param) != test.param {
					t.Errorf("%s: param is %q, want %q: %s", method, deref(e.Param), test.param, e.Message)
				}
			}
		})
	}
	for _, test := range []object{{"name": "01234567890"}, {"name": "n", "description": "01234567890"}} {
		a.WantError(stoa.CodeInvalidValue, "POST", "/api/v1/spaces", test)
	}
	a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/duplicate", object{"name": "01234567890"})
}

func TestChangesOfWhatASessionPinsMakeVersions(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"limits": object{"maxSteps": 3}})
	change := func(body object) (agent contract.Agent) {
		t.Helper()
		a.Want(200, "PATCH", a.agent, body).JSON(&agent)
		return agent
	}
	for _, test := range []struct {
		body object
		want int64
	}{
		{object{"name": "Other", "description": "d", "metadata": object{"a": "b"}, "embedEnabled": false}, 1},
		{object{"instructions": "Be long."}, 2},
		{object{"instructions": "Be long."}, 2},
		{object{"model": "alpha-opus-5-5"}, 3},
		{object{"driveAccess": "read_write"}, 4},
		{object{"limits": object{"timeoutSeconds": 60}}, 5},
		{object{"limits": object{"maxSteps": nil}}, 6},
		{object{"spaceId": newSpace(t, a.Client, object{"name": "elsewhere"}).ID}, 6},
	} {
		if got := change(test.body); got.Version != test.want {
			t.Errorf("after %v the version is %d, want %d", test.body, got.Version, test.want)
		}
	}
	now := change(object{"model": nil, "driveAccess": nil, "embedEnabled": nil})
	if now.Model != "auto" || now.DriveAccess != "read_only" || !now.EmbedEnabled || orNone(now.Limits.TimeoutSeconds) != 60 || !now.Limits.MaxSteps.IsNull() {
		t.Errorf("null leaves %+v", now)
	}
	var versions contract.AgentVersionList
	var numbers []int64
	path := a.agent + "/versions?limit=3"
	for cursor := ""; ; cursor = "&cursor=" + orNone(versions.NextCursor) {
		a.Want(200, "GET", path+cursor, nil).JSON(&versions)
		for _, v := range versions.Data {
			numbers = append(numbers, v.Version)
		}
		if !versions.HasMore {
			break
		}
	}
	if want := []int64{7, 6, 5, 4, 3, 2, 1}; !slices.Equal(numbers, want) {
		t.Errorf("the versions are %v, want %v", numbers, want)
	}
	a.Want(200, "GET", a.agent+"/versions?order=asc&limit=1", nil).JSON(&versions)
	if v := versions.Data[0]; v.Version != 1 || v.Instructions != "Be brief." || orNone(v.Limits.MaxSteps) != 3 {
		t.Errorf("the first version is %+v", v)
	}
	var v contract.AgentVersion
	a.Want(200, "GET", a.agent+"/versions/3", nil).JSON(&v)
	if v.Model != "alpha-opus-5-5" || v.DriveAccess != "read_only" {
		t.Errorf("version 3 is %+v", v)
	}
	for _, none := range []string{"0", "8", "-1", "x", "99999999999999999999"} {
		a.WantError(stoa.CodeNotFound, "GET", a.agent+"/versions/"+none, nil)
	}

	etag := a.Want(200, "GET", a.agent, nil).Header.Get("ETag")
	a.With("If-Match", `"r0"`).WantError(stoa.CodePrecondition, "POST", a.agent+"/rollback", object{"version": 1})
	a.With("If-Match", `"r0"`).WantError(stoa.CodePrecondition, "PATCH", a.agent, object{"name": "late"})
	a.WantError(stoa.CodeNotFound, "POST", a.agent+"/rollback", object{"version": 99})
	var back contract.Agent
	a.With("If-Match", etag).Want(200, "POST", a.agent+"/rollback", object{"version": 1}).JSON(&back)
	if back.Version != 8 || back.Instructions != "Be brief." || back.Name != "Other" || orNone(back.Limits.MaxSteps) != 3 {
		t.Errorf("the rollback gives %+v", back)
	}
	a.Want(200, "POST", a.agent+"/rollback", object{"version": 1}).JSON(&back)
	if back.Version != 8 {
		t.Errorf("a rollback to the same made version %d", back.Version)
	}
}

func TestAnAgentSaysWhatVisitorsMayDo(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"driveAccess": "read_write"})
	want := func(reply *apitest.Reply, visitors string, version int64) {
		t.Helper()
		var agent contract.Agent
		if reply.JSON(&agent); agent.VisitorDrive != visitors || agent.Version != version {
			t.Errorf("%q in version %d, want %q in %d", agent.VisitorDrive, agent.Version, visitors, version)
		}
	}
	want(a.Want(200, "GET", a.agent, nil), "read", 1)
	want(a.Want(200, "PATCH", a.agent, object{"visitorDrive": "none"}), "none", 2)
	want(a.Want(200, "PATCH", a.agent, object{"name": "Other"}), "none", 2)
	want(a.Want(201, "POST", a.agent+"/duplicate", nil), "none", 1)
	want(a.Want(200, "POST", a.agent+"/rollback", object{"version": 1}), "read", 3)
	want(a.Want(200, "PATCH", a.agent, object{"visitorDrive": "write"}), "write", 4)
	want(a.Want(200, "PATCH", a.agent, object{"visitorDrive": nil}), "read", 5)
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	want(a.Want(201, "POST", "/api/v1/api-agents", object{"spaceId": agent.SpaceID, "name": "n", "instructions": "i", "visitorDrive": "write"}), "write", 1)
	for version, visitors := range map[string]string{"1": "read", "2": "none", "4": "write"} {
		var v contract.AgentVersion
		if a.Want(200, "GET", a.agent+"/versions/"+version, nil).JSON(&v); v.VisitorDrive != visitors {
			t.Errorf("version %s has %q", version, v.VisitorDrive)
		}
	}
}

// TestAnAgentSetsItsCompaction sets compactAt to a part of the window, to 0 and to null.
func TestAnAgentSetsItsCompaction(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"compactAt": 80})
	null, never, set := nullable.NewNullNullable[int](), nullable.NewNullableWithValue(0), nullable.NewNullableWithValue(80)
	want := func(reply *apitest.Reply, compactAt nullable.Nullable[int], version int64) {
		t.Helper()
		var agent contract.Agent
		if reply.JSON(&agent); !maps.Equal(agent.CompactAt, compactAt) || agent.Version != version {
			t.Errorf("%v in version %d, want %v in %d", agent.CompactAt, agent.Version, compactAt, version)
		}
	}
	want(a.Want(200, "GET", a.agent, nil), set, 1)
	want(a.Want(200, "PATCH", a.agent, object{"compactAt": 0}), never, 2)
	want(a.Want(200, "PATCH", a.agent, object{"name": "Other"}), never, 2)
	want(a.Want(201, "POST", a.agent+"/duplicate", nil), never, 1)
	want(a.Want(200, "PATCH", a.agent, object{"compactAt": nil}), null, 3)
	want(a.Want(200, "POST", a.agent+"/rollback", object{"version": 1}), set, 4)
	var v contract.AgentVersion
	if a.Want(200, "GET", a.agent+"/versions/2", nil).JSON(&v); !maps.Equal(v.CompactAt, never) {
		t.Errorf("version 2 has %v", v.CompactAt)
	}
}

// TestAnAgentSetsItsTables turns the tools for tables on and off.
func TestAnAgentSetsItsTables(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{})
	want := func(reply *apitest.Reply, tables bool, version int64) {
		t.Helper()
		var agent contract.Agent
		if reply.JSON(&agent); agent.Tables != tables || agent.Version != version {
			t.Errorf("%v in version %d, want %v in %d", agent.Tables, agent.Version, tables, version)
		}
	}
	want(a.Want(200, "GET", a.agent, nil), false, 1)
	want(a.Want(200, "PATCH", a.agent, object{"tables": true}), true, 2)
	want(a.Want(200, "PATCH", a.agent, object{"name": "Other"}), true, 2)
	want(a.Want(201, "POST", a.agent+"/duplicate", nil), true, 1)
	want(a.Want(200, "PATCH", a.agent, object{"tables": nil}), false, 3)
	want(a.Want(200, "POST", a.agent+"/rollback", object{"version": 2}), true, 4)
	var v contract.AgentVersion
	if a.Want(200, "GET", a.agent+"/versions/3", nil).JSON(&v); v.Tables {
		t.Error("version 3 has tables")
	}
}

func TestADuplicateHasTheConfigurationAlone(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"externalId": "x", "model": "alpha-haiku-4-5", "driveAccess": "read_write", "metadata": object{"a": "b"}})
	a.file("a.md", "text")
	elsewhere := newSpace(t, a.Client, object{"name": "elsewhere"})
	var one, two contract.Agent
	r := a.Want(201, "POST", a.agent+"/duplicate", nil).JSON(&one)
	a.Want(200, "GET", r.Header.Get("Location"), nil)
	a.Want(201, "POST", a.agent+"/duplicate", object{"name": "Twin", "spaceId": elsewhere.ID}).JSON(&two)
	if one.Name != "Helper" || one.Model != "alpha-haiku-4-5" || one.DriveAccess != "read_write" || one.Metadata["a"] != "b" || !one.ExternalID.IsNull() {
		t.Errorf("the first is %+v", one)
	}
	if two.Name != "Twin" || two.SpaceID != elsewhere.ID || two.Version != 1 {
		t.Errorf("the second is %+v", two)
	}
	var drive contract.Drive
	a.Want(200, "GET", "/api/v1/api-agents/"+one.ID+"/drive", nil).JSON(&drive)
	if drive.Files != 0 {
		t.Errorf("the drive of the duplicate has %d files", drive.Files)
	}
	a.WantError(stoa.CodeSpaceNotFound, "POST", a.agent+"/duplicate", object{"spaceId": "spc_x"})
	a.WantError(stoa.CodeAgentNotFound, "POST", "/api/v1/api-agents/agt_x/duplicate", object{})

	var list contract.AgentList
	a.Want(200, "GET", "/api/v1/spaces/"+elsewhere.ID+"/agents", nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].ID != two.ID {
		t.Errorf("the space has the agents %+v", list.Data)
	}
	a.WantError(stoa.CodeSpaceNotEmpty, "DELETE", "/api/v1/spaces/"+elsewhere.ID, nil)
	a.WantError(stoa.CodeInvalidType, "DELETE", "/api/v1/spaces/"+elsewhere.ID+"?force=maybe", nil)
	a.Want(204, "DELETE", "/api/v1/spaces/"+elsewhere.ID+"?force=true", nil)
	a.WantError(stoa.CodeAgentNotFound, "GET", "/api/v1/api-agents/"+two.ID, nil)
}

func TestADeletedAgentIsGoneWithAllItHad(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	a.file("a.md", "text")
	_, waiting := a.begin(t, "ask: Which?", nil)
	a.until(t, waiting, "waiting_for_input")
	_, running := a.begin(t, "wait: 30s", nil)
	etag := a.Want(200, "GET", a.agent, nil).Header.Get("ETag")
	a.With("If-Match", `"r9"`).WantError(stoa.CodePrecondition, "DELETE", a.agent, nil)
	a.With("If-Match", etag).Want(204, "DELETE", a.agent, nil)
	a.With("If-Match", etag).WantError(stoa.CodeAgentNotFound, "DELETE", a.agent, nil)
	a.WantError(stoa.CodeAgentNotFound, "DELETE", a.agent, nil)
	for _, path := range []string{"", "/versions", "/versions/1", "/drive", "/drive/files", "/sessions"} {
		a.WantError(stoa.CodeAgentNotFound, "GET", a.agent+path, nil)
	}
	for _, path := range []string{waiting, running} {
		a.WantError(stoa.CodeAgentNotFound, "GET", path, nil)
		a.WantError(stoa.CodeAgentNotFound, "GET", path+"/events", nil)
		a.WantError(stoa.CodeAgentNotFound, "POST", path+"/messages", object{"message": "x"})
		a.WantError(stoa.CodeAgentNotFound, "DELETE", path, nil)
	}
	a.WantError(stoa.CodeAgentNotFound, "POST", a.agent+"/sessions", object{"message": "x"})
	var list contract.AgentList
	a.Want(200, "GET", "/api/v1/api-agents", nil).JSON(&list)
	if len(list.Data) != 0 {
		t.Errorf("it is still in the list: %+v", list.Data)
	}
	if b := quiet(t, h); b.Held != 0 {
		t.Errorf("%d credits are still held", b.Held)
	}
}

// TestAnotherAccountsThingsDoNotExist asks for everything of an account with
// another account's key, and for things that never were: the replies are the same.
func TestAnotherAccountsThingsDoNotExist(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: mine", nil)
	session := a.until(t, path, "completed")
	space := newSpace(t, a.Client, object{"name": "mine"})
	outsider := newCustomer(t, h)
	theirs := newAuthor(t, h, outsider, nil)
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if !strings.Contains(op.Path, "/api-agents/{id}") && !strings.Contains(op.Path, "/spaces/{id}") {
			return
		}
		ask := func(agent, space, session string) (int, contract.ErrorBody) {
			r := op.Sample("1")
			r.Path = strings.Replace(r.Path, "/api-agents/1", agent, 1)
			r.Path = strings.Replace(r.Path, "/spaces/1", "/spaces/"+space, 1)
			r.Path = strings.Replace(r.Path, "/sessions/1", "/sessions/"+session, 1)
			reply := outsider.Send(r)
			e := reply.Error()
			e.RequestID = ""
			return reply.Status, e
		}
		foreign, foreignError := ask(strings.TrimPrefix(a.agent, "/api/v1"), space.ID, session.ID)
		none, noneError := ask("/api-agents/"+stoa.NewID("agt"), stoa.NewID("spc"), stoa.NewID("ses"))
		if foreign != none || foreignError.Message != noneError.Message || foreignError.Code != noneError.Code {
			t.Errorf("a foreign one answers %d %+v, none %d %+v", foreign, foreignError, none, noneError)
		}
		if foreign != 404 {
			t.Errorf("a foreign one answers %d %+v", foreign, foreignError)
		}
		if strings.Contains(op.Path, "{sessionId}") { // of another agent, even of one's own
			foreign, foreignError := ask(strings.TrimPrefix(theirs.agent, "/api/v1"), "", session.ID)
			if foreign != 404 || foreignError.Code != string(stoa.CodeSessionNotFound) {
				t.Errorf("under an agent of one's own it answers %d %+v", foreign, foreignError)
			}
		}
	})
	if got := a.until(t, path, "completed"); got.LastEventSeq != session.LastEventSeq {
		t.Errorf("the session was changed: %+v", got)
	}
	a.Want(200, "GET", a.agent, nil)
	a.Want(200, "GET", "/api/v1/spaces/"+space.ID, nil)
	outsider.WantError(stoa.CodeSpaceNotFound, "POST", "/api/v1/api-agents", object{"spaceId": space.ID, "name": "n", "instructions": "i"})
	outsider.WantError(stoa.CodeSpaceNotFound, "PATCH", theirs.agent, object{"spaceId": space.ID})
	outsider.WantError(stoa.CodeSpaceNotFound, "POST", theirs.agent+"/duplicate", object{"spaceId": space.ID})
}

func TestMakingAgentsUnderAnIdempotencyKeyHappensOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: x", nil)
	a.until(t, path, "completed")
	a.Want(200, "PATCH", a.agent, object{"instructions": "Be long."})
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	once := a.With("Idempotency-Key", "order-1")
	for _, test := range []struct {
		path        string
		body, other object
	}{
		{"/api/v1/spaces", object{"name": "one"}, object{"name": "two"}},
		{"/api/v1/api-agents", object{"spaceId": agent.SpaceID, "name": "one", "instructions": "i", "externalId": "once"}, object{"spaceId": agent.SpaceID, "name": "two", "instructions": "i"}},
		{a.agent + "/duplicate", object{"name": "one"}, object{"name": "two"}},
		{a.agent + "/rollback", object{"version": 1}, object{"version": 2}},
		{a.agent + "/sessions", object{"message": "say: one", "externalId": "once"}, object{"message": "say: two"}},
		{path + "/messages", object{"message": "say: one"}, object{"message": "say: two"}},
	} {
		first := once.Do("POST", test.path, test.body)
		again := once.Do("POST", test.path, test.body)
		if first.Status >= 300 || first.Status != again.Status || string(first.Body) != string(again.Body) {
			t.Errorf("%s: the answers differ:\n%d %s%d %s", test.path, first.Status, first.Body, again.Status, again.Body)
		}
		for _, name := range []string{"Location", "ETag", "Retry-After", "Content-Type"} {
			if first.Header.Get(name) != again.Header.Get(name) {
				t.Errorf("%s: %s is %q, then %q", test.path, name, first.Header.Get(name), again.Header.Get(name))
			}
		}
		if first.Header.Get("Idempotency-Replayed") != "" || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: only the second answer is a replay", test.path)
		}
		once.WantError(stoa.CodeIdempotencyReused, "POST", test.path, test.other)
	}
}

func TestListsOfSpacesAndAgentsComeInPages(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	var me contract.User
	a.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	space := orNone(me.DefaultSpaceID)
	for range 4 {
		newSpace(t, a.Client, object{"name": "s"})
		newAuthor(t, h, a.Client, nil)
		_, path := a.begin(t, "say: x", object{"externalUserId": "u"})
		a.until(t, path, "completed")
	}
	for path, want := range map[string]int{
		"/api/v1/spaces?": 5, "/api/v1/api-agents?": 5, "/api/v1/spaces/" + space + "/agents?": 5, a.agent + "/sessions?": 4,
		a.agent + "/sessions?externalUserId=u&status=completed&trigger=api&": 4, a.agent + "/sessions?status=failed&": 0,
	} {
		var orders [2][]string
		for i, order := range []string{"desc", "asc"} {
			cursor := ""
			for {
				var p page[object]
				a.Want(200, "GET", path+"limit=2&order="+order+cursor, nil).JSON(&p)
				for _, one := range p.Data {
					orders[i] = append(orders[i], one["id"].(string))
				}
				if !p.HasMore {
					break
				}
				cursor = "&cursor=" + *p.NextCursor
			}
			if len(orders[i]) != want {
				t.Errorf("GET %s%s: %d in all, want %d", path, order, len(orders[i]), want)
			}
		}
		slices.Reverse(orders[1])
		if diff := cmp.Diff(orders[0], orders[1]); diff != "" {
			t.Errorf("GET %s: the orders are not each other's opposite:\n%s", path, diff)
		}
	}
}

// TestSettingsOfAgentsReachEveryBody compares the types of the bodies that are copied member by
// member: a setting of one of them that the other does not have would be lost.
func TestSettingsOfAgentsReachEveryBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from, into reflect.Type
		except     string
	}{
		{reflect.TypeFor[contract.CreateAgent](), reflect.TypeFor[contract.UpdateAgent](), "Metadata"},
		{reflect.TypeFor[contract.AgentDraft](), reflect.TypeFor[contract.UpdateAgent](), ""},
		{reflect.TypeFor[contract.AgentVersion](), reflect.TypeFor[contract.Agent](), "AgentID"},
	} {
		for i := range tt.from.NumField() {
			f := tt.from.Field(i)
			if into, found := tt.into.FieldByName(f.Name); f.Name != tt.except && (!found || into.Type != f.Type) {
				t.Errorf("%s of %s is not copied to %s", f.Name, tt.from.Name(), tt.into.Name())
			}
		}
	}
}
