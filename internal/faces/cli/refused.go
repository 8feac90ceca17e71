package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stoa/internal/base/client"
	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
)

// memberNote is the annotation of a flag with the names of the members that it sets, if
// they differ from the flag's name.
const memberNote = "stoa-member"

// sends records that a flag sets a member, so that an error about the member names the flag.
func sends(c *cobra.Command, flag, member string) {
	f := c.Flags().Lookup(flag)
	if f == nil {
		return
	}
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[memberNote] = append(f.Annotations[memberNote], member)
}

type refusedFlag struct {
	text string
	error
}

func (r refusedFlag) Error() string { return r.text }

// Unwrap returns the error of the service.
func (r refusedFlag) Unwrap() error { return r.error }

var index = regexp.MustCompile(`\[([0-9]+)\]$`)

// inFlags returns err in terms of the flag of c that set the member at fault, because the user typed flags; or err itself.
func inFlags(c *cobra.Command, err error) error {
	answer, ok := errors.AsType[*client.Error](err)
	if !ok || c == nil || answer.Param == "" || answer.Status != 400 && answer.Status != 422 {
		return err
	}
	path, item := answer.Param, -1
	if m := index.FindStringSubmatch(path); m != nil {
		path = strings.TrimSuffix(path, m[0])
		item, _ = strconv.Atoi(m[1])
	}
	last := lastPart(path)
	var found *pflag.Flag
	c.Flags().Visit(func(f *pflag.Flag) { // the flags that were set
		for _, member := range append([]string{f.Name}, f.Annotations[memberNote]...) {
			if letters(member) == letters(path) || letters(lastPart(member)) == letters(last) {
				found = f
			}
		}
	})
	if found == nil {
		return err
	}
	value := found.Value.String()
	if list, ok := found.Value.(pflag.SliceValue); ok {
		all := list.GetSlice()
		value = strings.Join(all, ",")
		if item >= 0 && item < len(all) {
			value = all[item]
		}
	}
	text := answer.Message
	text = strings.TrimPrefix(strings.TrimPrefix(text, "The parameter "), strconv.Quote(answer.Param)+" ")
	text = bound.ReplaceAllStringFunc(text, func(limit string) string { return inUnits(last, limit) })
	if _, list, ok := strings.Cut(text, "must be one of "); ok {
		text = strings.TrimSuffix(text, ".") + didYouMean(near(value, strings.Split(strings.TrimSuffix(list, "."), ", ")))
	}
	if answer.RequestID != "" {
		text += " (" + answer.RequestID + ")"
	}
	return refusedFlag{fmt.Sprintf("--%s %s: %s", found.Name, shellWord(shorten(oneLine(value), 60)), text), err}
}

var bound = regexp.MustCompile(`must be at (least|most) [0-9]+\b`)

func inUnits(member, limit string) string {
	at := strings.LastIndexByte(limit, ' ') + 1
	n, err := strconv.ParseInt(limit[at:], 10, 64)
	switch {
	case err != nil:
	case strings.HasSuffix(member, "Seconds"):
		return limit[:at] + spanText(time.Duration(n)*time.Second)
	case strings.Contains(member, "Micro"):
		return limit[:at] + stoa.Credits(n).String() + " credits"
	}
	return limit
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// letters returns a name without word separators, so that max-output-tokens,
// maxOutputTokens and max_output_tokens are equal.
func letters(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// hasStore checks that the data directory of the settings has a store, because the command must not create one.
func hasStore(cfg config.Config) error {
	if cfg.Database != "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, "core.db")); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no data directory here: %s has no core.db; use --data DIR", cmp.Or(filepath.Clean(cfg.Data), "."))
	}
	return nil
}
