package drive_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stoa/internal/agents/drive"
	"stoa/internal/base/stoa"
)

// TestADriveBehavesLikeItsModel runs random writes on a drive and on a map that
// implements the rules in the simplest way.
func TestADriveBehavesLikeItsModel(t *testing.T) {
	t.Parallel()
	d := open(t, dbConfig(t), drive.Limits{MaxFiles: 6, MaxBytes: 30, MaxVersions: 2})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		me := drive.Owner{AccountID: "acc_1", AgentID: fmt.Sprintf("agt_%d", n)}
		model := map[string]string{}
		name := rapid.SampledFrom([]string{"a", "b", "a/b", "a/b/c", "a.b", "a/", "b/c", "ab", "a/c", "b/c/d"})
		code := func(err error) stoa.Code { return stoa.CodeOf(err) }
		conflict := func(p string) bool {
			for other := range model {
				if strings.HasPrefix(other, p+"/") || strings.HasPrefix(p, other+"/") {
					return true
				}
			}
			return false
		}
		bytes := func() (sum int) {
			for _, text := range model {
				sum += len(text)
			}
			return sum
		}
		place := func(p, text string) stoa.Code {
			old, there := model[p]
			switch {
			case there && old == text:
				return ""
			case !there && conflict(p):
				return stoa.CodePathConflict
			case !there && len(model) == 6, bytes()-len(old)+len(text) > 30 && (!there || len(text) > len(old)):
				return stoa.CodeStorageFull
			}
			model[p] = text
			return ""
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				p, text := name.Draw(rt, "path"), rapid.StringMatching(`[xyz]{0,9}`).Draw(rt, "text")
				parsed, err := drive.ParsePath(p)
				if err != nil {
					return
				}
				want := place(p, text)
				if _, err := d.PutText(t.Context(), me, drive.Claim{}, parsed, text, ""); code(err) != want {
					rt.Fatalf("put %q: %v, want %q", p, err, want)
				}
			},
			"delete": func(rt *rapid.T) {
				p, err := drive.ParsePath(name.Draw(rt, "path"))
				if err != nil {
					return
				}
				delete(model, p.String())
				if _, err := d.Delete(t.Context(), me, p, drive.Condition{}); err != nil {
					rt.Fatal(err)
				}
			},
			"delete folder": func(rt *rapid.T) {
				folder, err := drive.ParseFolder(name.Draw(rt, "path"))
				if err != nil {
					return
				}
				maps.DeleteFunc(model, func(p, _ string) bool { return strings.HasPrefix(p, folder) })
				if _, err := d.DeleteFolder(t.Context(), me, folder); err != nil {
					rt.Fatal(err)
				}
			},
			"move": func(rt *rapid.T) {
				from, err1 := drive.ParsePath(name.Draw(rt, "from"))
				to, err2 := drive.ParsePath(name.Draw(rt, "to"))
				if err1 != nil || err2 != nil {
					return
				}
				overwrite := rapid.Bool().Draw(rt, "overwrite")
				var want stoa.Code
				text, there := model[from.String()]
				_, taken := model[to.String()]
				switch {
				case !there:
					want = stoa.CodeFileNotFound
				case from == to:
				case taken && !overwrite:
					want = stoa.CodeConflict
				default:
					before := maps.Clone(model)
					delete(model, from.String())
					delete(model, to.String())
					if conflict(to.String()) {
						want, model = stoa.CodePathConflict, before
					} else {
						model[to.String()] = text
					}
				}
				_, err := d.Apply(t.Context(), me, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: from, To: to, Overwrite: overwrite}})
				if code(err) != want {
					rt.Fatalf("move %v to %v: %v, want %q", from, to, err, want)
				}
			},
			"restore": func(rt *rapid.T) {
				p, err := drive.ParsePath(name.Draw(rt, "path"))
				if err != nil {
					return
				}
				versions, err := d.Versions(t.Context(), me, p)
				if err != nil {
					return
				}
				v := rapid.SampledFrom(versions).Draw(rt, "version")
				texts := map[string]string{}
				for _, text := range append(slices.Collect(maps.Values(model)), "") {
					texts[hash(text)] = text
				}
				text, known := texts[v.SHA256]
				if !known {
					return // the model has no history
				}
				want := place(p.String(), text)
				_, err = d.Apply(t.Context(), me, drive.Claim{}, []drive.Op{{Verb: drive.VerbRestore, Path: p, Version: v.Number}})
				if code(err) != want {
					rt.Fatalf("restore %v: %v, want %q", p, err, want)
				}
			},
			"": func(rt *rapid.T) {
				l, err := d.List(t.Context(), me, drive.Listing{Limit: 100})
				if err != nil {
					rt.Fatal(err)
				}
				got, want := map[string]string{}, map[string]string{}
				for _, f := range l.Files {
					got[f.Path] = f.SHA256
				}
				for p, text := range model {
					want[p] = hash(text)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatal(diff)
				}
				s, err := d.Stats(t.Context(), me)
				if err != nil || s.Files != int64(len(model)) || s.Bytes != int64(bytes()) {
					rt.Fatalf("%+v, %v", s, err)
				}
			},
		})
	})
	check(t, d)
}
