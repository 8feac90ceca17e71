package e2e

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	auditlog "stoa/internal/base/audit"
)

// TestAuditChainsOfNodes makes changes at three nodes, of which one is killed: the chain has no
// fork and no gap, each change that was answered has its entry, and no other object exists.
func TestAuditChainsOfNodes(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	_, servers := nodes(t, v.url, 3)
	h := servers[0]
	a := h.newAccount(t, "pro", 1_000_000)
	var made sync.Map // ids of the answered changes
	var answered atomic.Int32
	killed := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 8 {
				var space struct{ ID string }
				at := servers[(w+i)%3]
				if _, err := at.call(context.Background(), http.MethodPost, a.key, "/spaces", object{"name": strconv.Itoa(w*8 + i)}, &space); err == nil {
					made.Store(space.ID, true)
				}
				if answered.Add(1) == 24 {
					servers[2].kill()
					close(killed)
				}
			}
		})
	}
	writers.Wait()
	<-killed
	reloaded := h.current().logs("configuration reloaded")
	h.current().signal(t, syscall.SIGHUP)
	wait(t, "the configuration again", reloaded)

	logs := map[string]string{}
	for _, account := range []string{a.id, auditlog.Service} {
		logs[account] = h.text(t, ownerKey, "/audit/export?accountId="+account)
		if got, err := auditlog.Verify(strings.NewReader(logs[account]), ""); err != nil || got.First != 1 {
			t.Errorf("%s: %+v, %v", account, got, err)
		}
	}
	made.Range(func(id, _ any) bool {
		if strings.Count(logs[a.id], `"object":"`+id.(string)+`"`) != 1 {
			t.Errorf("%v has no entry, or more than one", id)
		}
		return true
	})
	var spaces struct{ Data []struct{ ID string } }
	h.get(t, a.key, "/spaces?limit=100", &spaces)
	if entries := strings.Count(logs[a.id], `"action":"createSpace"`); entries != len(spaces.Data)-1 { // without the default one
		t.Errorf("%d entries, %d spaces", entries, len(spaces.Data))
	}
	if !strings.Contains(logs[auditlog.Service], `"action":"configuration.reloaded"`) {
		t.Errorf("the log of the service is %s", logs[auditlog.Service])
	}
}
