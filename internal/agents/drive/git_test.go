package drive_test

import (
	"testing"

	"stoa/internal/agents/drive"
)

func TestNamesThatMayMeanGit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".Git": true, ".git.": true, ".git .": true, "git~1": true, ".g\u200cit": true, "\ufeff.git": true,
		".gitignore": false, "git": false, ".github": false, "a.git": false, "": false, ".": false, "git~2x": false,
	} {
		if got := drive.IsGit(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
