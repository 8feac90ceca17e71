package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

//go:embed init.yaml
var sampleConfig string

func (e *env) configInit() *cobra.Command {
	return &cobra.Command{
		Use: "init [FILE]", Short: "Write a file of settings to begin with", Args: takes("[FILE]"),
		Long: `Write a file with the settings that people change first, each commented out and explained. The default
name is stoa.yaml. A file that exists is never written over; "-" is standard output.`,
		Example: "  stoa config init\n  stoa config init /etc/stoa/stoa.yaml\n  stoa serve --config stoa.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			name := "stoa.yaml"
			if len(args) > 0 {
				name = args[0]
			}
			if name == "-" {
				_, err := fmt.Fprint(e.out, sampleConfig)
				return err
			}
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it may get keys
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists and is left as it is; name another file, or remove it first", name)
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(sampleConfig)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			e.say("Wrote %s. Change it, then: stoa config check --config %s", name, shellWord(name))
			return nil
		},
	}
}
