package api_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// asking returns a sample of the operation with one more query parameter.
func asking(op apitest.Operation, parameter string) apitest.Request {
	r := op.Sample("x")
	if strings.Contains(r.Path, "?") {
		r.Path += "&" + parameter
	} else {
		r.Path += "?" + parameter
	}
	return r
}

func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		lenient := op.Security != nil || slices.ContainsFunc([]string{"/api/v1/responses", "/api/v1/chat/completions", "/api/v1/messages", "/api/v1/models"},
			func(prefix string) bool { return strings.HasPrefix(op.Path, prefix) })
		c := h.Client(t)
		if lenient {
			if r := c.Send(asking(op, "bogus=1")); r.Status == 400 && r.Error().Code == "unknown_parameter" {
				t.Errorf("answered %s", r.Body)
			}
			return
		}
		e := c.SendForError("unknown_parameter", asking(op, "bogus=1")).Error()
		if e.Param == nil || *e.Param != "bogus" {
			t.Errorf("the error does not name the parameter: %+v", e)
		}
		hasAccount := op.Parameters.GetByInAndName(openapi3.ParameterInQuery, "accountId") != nil
		if hasAccount { // an empty one, as of an unset variable, is not the caller's own account
			if e := c.SendForError("invalid_value", asking(op, "accountId=")).Error(); e.Param == nil || *e.Param != "accountId" {
				t.Errorf("an empty accountId: %+v", e)
			}
			return
		}
		e = c.SendForError("unknown_parameter", asking(op, "accountId="+h.Account.ID)).Error()
		other, _ := op.Extensions["x-other-account"].(string)
		if !strings.Contains(e.Message, "account of the key") || !strings.Contains(e.Message, other) {
			t.Errorf("accountId is refused with %q", e.Message)
		}
		if method, path, ok := strings.Cut(other, " "); ok && apitest.Document().Paths.Value(path).GetOperation(method) == nil {
			t.Errorf("%s does not exist", other)
		}
	})
}

func TestAnOperatorDoesNotChangeItsOwnAccountByAccident(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	keys := func() (ids []string) {
		t.Helper()
		var list contract.KeyList
		c.Want(200, "GET", "/api/v1/keys", nil).JSON(&list)
		for _, k := range list.Data {
			ids = append(ids, k.ID)
		}
		return ids
	}
	before := keys()
	c.WantError(stoa.CodeUnknownParameter, "POST", "/api/v1/keys?accountId=acc_other", object{"name": "for a customer", "scopes": []string{"responses"}})
	if now := keys(); len(before) == 0 || !slices.Equal(now, before) {
		t.Errorf("after a refused request the keys are %q, before %q", now, before)
	}
	c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/credits?a=%zz", nil)
	long := url.QueryEscape(strings.Repeat("é", 500))
	if e := c.WantError(stoa.CodeUnknownParameter, "GET", "/api/v1/credits?"+long+"=1", nil); len(*e.Param) > 80 {
		t.Errorf("param has %d bytes", len(*e.Param))
	}
}
