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
		Use: "init [FILE]", Short: "Write an example configuration file", Args: takes("[FILE]"),
		Long: `Write a configuration file with the most common settings, each commented out and explained. The default name
is stoa.yaml. An existing file is never overwritten; "-" is standard output.`,
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
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // because users may add keys
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s already exists; choose another file, or delete it first", name)
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
