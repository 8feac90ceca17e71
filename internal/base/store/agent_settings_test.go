package store_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// changeOf sets a field of the settings of an agent, or a field in it, to another value.
func changeOf(t *testing.T, v reflect.Value, n int64) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[[]stoa.AgentTool]():
		v.Set(reflect.ValueOf([]stoa.AgentTool{{Type: stoa.ToolClient, Name: fmt.Sprint("tool ", n)}}))
	case v.Type() == reflect.TypeFor[*stoa.CallSettings]():
		temperature := float64(n) / 8
		v.Set(reflect.ValueOf(&stoa.CallSettings{ReplySchema: fmt.Sprint("schema ", n), Effort: fmt.Sprint("effort ", n), Temperature: &temperature}))
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(n * int64(time.Microsecond))
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprint("text ", n))
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(n)
	default:
		t.Fatalf("a setting is a %s: extend this test", v.Type())
	}
}

// settingsIn returns the fields of settings, also those in structs.
func settingsIn(v reflect.Value) (fields []reflect.Value) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Struct {
			fields = append(fields, settingsIn(f)...)
		} else {
			fields = append(fields, f)
		}
	}
	return fields
}

// TestEverySettingOfAnAgentIsPinned changes one setting after the other. Each change must make a
// version, which has it, and be stored with the agent; a rollback must undo all of them.
func TestEverySettingOfAnAgentIsPinned(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		account := storetest.Account(t, st, 0)
		var a stoa.Agent
		write(t, st, func(tx *store.Tx) error {
			space, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: account.ID, Name: "s"})
			if err == nil {
				a, err = tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: account.ID, SpaceID: space.ID, Name: "a"})
			}
			return err
		})
		fields := len(settingsIn(reflect.ValueOf(a.AgentSettings)))
		if fields < 11 {
			t.Fatalf("an agent has %d settings", fields)
		}
		for i := range fields {
			write(t, st, func(tx *store.Tx) error {
				before := a.AgentSettings
				changed, err := tx.Setup().EditAgent(ctx, account.ID, a.ID, func(a *stoa.Agent) error {
					changeOf(t, settingsIn(reflect.ValueOf(&a.AgentSettings).Elem())[i], int64(100+i))
					return nil
				})
				if err != nil {
					return err
				}
				if changed.Version != a.Version+1 || changed.AgentSettings.Equal(before) {
					t.Errorf("version %d follows %d after the change of\n%s", changed.Version, a.Version, cmp.Diff(before, changed.AgentSettings))
				}
				a = changed
				stored, err := tx.Setup().Agent(ctx, account.ID, a.ID)
				if err != nil {
					return err
				}
				v, err := tx.Setup().AgentVersion(ctx, account.ID, a.ID, a.Version)
				if err != nil {
					return err
				}
				if diff := cmp.Diff(a, stored); diff != "" {
					t.Errorf("the agent (-written +read):\n%s", diff)
				}
				if diff := cmp.Diff(stoa.AgentVersion{AgentID: a.ID, Version: a.Version, AgentSettings: a.AgentSettings, CreatedAt: tx.Now}, v); diff != "" {
					t.Errorf("the version (-written +read):\n%s", diff)
				}
				return nil
			})
		}
		write(t, st, func(tx *store.Tx) error {
			back, err := tx.Setup().RollbackAgent(ctx, account.ID, a.ID, 1)
			if err != nil {
				return err
			}
			first, err := tx.Setup().AgentVersion(ctx, account.ID, a.ID, 1)
			if diff := cmp.Diff(first.AgentSettings, back.AgentSettings); diff != "" {
				t.Errorf("the restored settings (-version 1 +agent):\n%s", diff)
			}
			return err
		})
	})
}

// TestDraftsKeepTheirForm compares the JSON of a draft with that of earlier releases: sessions
// with a draft outlive an upgrade.
func TestDraftsKeepTheirForm(t *testing.T) {
	t.Parallel()
	draft := stoa.AgentSettings{
		Instructions: "i", Model: "m", DriveAccess: stoa.DriveReadWrite, VisitorDrive: stoa.VisitorDriveNone, Tools: []stoa.AgentTool{},
		Limits: stoa.TurnLimits{MaxSteps: 7}, Timezone: "Asia/Tokyo", CompactAt: 70, Tables: true,
	}
	text, err := json.Marshal(draft)
	if want := `{"Instructions":"i","Model":"m","DriveAccess":"read_write","VisitorDrive":"none","Tools":[],"CompactAt":70,"Tables":true}`; string(text) != want || err != nil {
		t.Errorf("a draft is stored as %s, want %s: %v", text, want, err)
	}
}
