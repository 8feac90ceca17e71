package app

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"stoa/internal/base/config"
)

// TestARefusedReloadIsAnAlert reloads a configuration with an error, and then one without.
func TestARefusedReloadIsAnAlert(t *testing.T) {
	t.Parallel()
	cfg := loaded(t, "adminListen: off")
	cfg.Data = cmp.Or(cfg.Data, t.TempDir()) // a setting that is checked again
	hangup, read := make(chan os.Signal), make(chan error)
	ended, ready := make(chan error, 1), make(chan string, 1)
	log := &lockedBuffer{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		ended <- Run(ctx, Options{
			Config: cfg, Logger: slog.New(slog.NewTextHandler(log, nil)), Ready: func(u string) { ready <- u }, Hangup: hangup,
			Reload: func() (config.Config, error) { return cfg, <-read },
		})
	}()
	url := <-ready
	notices := func() string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/api/v1/notices", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testKey)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	hangup <- syscall.SIGHUP
	read <- errors.Join(&config.Problem{Where: "stoa.yaml:14:5", Path: "providers[0].wire", Message: "unknown"}, errors.New("another"))
	hangup <- syscall.SIGHUP // is received when the reload before has ended
	if got := notices(); !strings.Contains(got, "config.refused") {
		t.Errorf("after a refusal: %s", got)
	}
	read <- nil
	hangup <- syscall.SIGHUP
	if got := notices(); strings.Contains(got, "config.refused") {
		t.Errorf("after a reload: %s\n%s", got, log)
	}
	read <- nil
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
