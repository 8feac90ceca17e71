package drive_test

import (
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/extract"
)

// TestOutdatedTextsAreReadNewestFirst: newer readers read the newest content first, and older ones read nothing again.
func TestOutdatedTextsAreReadNewestFirst(t *testing.T) {
	t.Parallel()
	eachReading(t, drive.Limits{}, func(t *testing.T, d *drive.Drives, r *reader) {
		for _, name := range []string{"a", "b", "c"} {
			put(t, d, name+".pdf", "%PDF-ready words of "+name)
		}
		outdated := func(want int) {
			t.Helper()
			if n, err := d.Outdated(t.Context(), 100); err != nil || n != want {
				t.Errorf("%d texts are outdated, want %d; %v", n, want, err)
			}
		}
		outdated(0)
		d.SetReaders(extract.Version+1, 0)
		outdated(3)
		sweepTexts(t, d)
		outdated(0)
		if r.seen.Name != "a.pdf" {
			t.Errorf("the last one read is %s", r.seen.Name)
		}
		d.SetReaders(extract.Version, 0)
		outdated(0)
		sweepTexts(t, d)
		if n := r.count("%PDF-ready words of a"); n != 2 {
			t.Errorf("read %d times", n)
		}
	})
}
