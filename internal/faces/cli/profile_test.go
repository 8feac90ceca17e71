package cli

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"
)

// A person is a user of the command line with a home directory.
type person struct {
	t       *testing.T
	environ []string
}

func newPerson(t *testing.T, environ ...string) person {
	return person{t, append(environ, "XDG_CONFIG_HOME="+t.TempDir())}
}

// runs returns what a command line prints on both streams.
func (p person) runs(want int, in string, args ...string) string {
	p.t.Helper()
	var out bytes.Buffer
	if code := Main(p.t.Context(), args, p.environ, nil, strings.NewReader(in), &out, &out); code != want {
		p.t.Errorf("stoa %s exits with %d, want %d: %s", strings.Join(args, " "), code, want, out.String())
	}
	return out.String()
}

func (p person) profile() string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(strings.TrimPrefix(p.environ[len(p.environ)-1], "XDG_CONFIG_HOME="), "stoa", "profile.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return string(text)
}

// service answers GET /users/me for one key.
func service(t *testing.T, key string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1/meta" { // needs no key
			io.WriteString(w, `{"apiVersion":"v1"}`)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"message":"No.","type":"invalid_request_error","param":null,"code":"Unauthorized","requestId":"req_1","retryable":false}}`)
			return
		}
		io.WriteString(w, `{"id":"acc_1","name":"owner","email":null,"plan":{"id":"pro","name":"Pro","gatedModels":true},"credits":{"availableMicro":1,"heldMicro":0},"defaultSpaceId":null,"key":{"id":"key_1","name":"k","hint":"sk_t…cret","scopes":["*"],"expiresAt":null},"createdAt":"2026-11-20T12:00:00.000Z"}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAKeyringKeepsTheKey(t *testing.T) {
	// Not parallel: the keyring is one for the process.
	keyring.MockInit()
	const key = "sk_test_of_a_keyring_with_a_long_secret"
	url := service(t, key)
	p := newPerson(t, "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere")
	if said := p.runs(0, key+"\n", "login", "--base-url", url); !strings.Contains(said, "the system's keyring") {
		t.Errorf("it says %q", said)
	}
	if text := p.profile(); text == "" || strings.Contains(text, key) {
		t.Errorf("the profile is %q", text)
	}
	p.runs(0, "", "whoami")
	p.runs(0, "", "logout")
	if _, err := keyring.Get(keyringService, url); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("the key is still in the keyring: %v", err)
	}
	p.runs(4, "", "whoami")
}

func TestABrokenKeyringIsReplacedByAFile(t *testing.T) {
	// Not parallel: the keyring is one for the process.
	keyring.MockInitWithError(errors.New("locked"))
	const key = "sk_test_of_a_file_with_a_long_secret"
	url := service(t, key)
	p := newPerson(t, "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere")
	p.runs(0, key, "login", "--base-url", url)
	if text := p.profile(); !strings.Contains(text, key) {
		t.Errorf("the profile is %q", text)
	}
	p.runs(0, "", "whoami")
}

// A key is neither asked for nor sent where no service answers.
func TestAKeyIsNotSentElsewhere(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s carries a key", r.URL)
		}
		io.WriteString(w, `{"hello":"world"}`)
	}))
	t.Cleanup(s.Close)
	p := newPerson(t)
	if said := p.runs(1, "sk_another_key_with_a_long_secret_in_it", "login", s.URL); !strings.Contains(said, "is not a Stoa service") {
		t.Errorf("it says %q", said)
	}
}

// Two profiles of one service have two keys, in the keyring and in files.
func TestProfilesHaveKeysOfTheirOwn(t *testing.T) {
	// Not parallel: the keyring is one for the process.
	keyring.MockInit()
	const first, second = "sk_the_first_key_with_a_long_secret", "sk_the_second_key_with_a_long_secret"
	one, two := service(t, first), service(t, second)
	for _, store := range []string{"keyring", "file"} {
		p := newPerson(t, "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere")
		p.runs(0, first, "login", one, "--store", store)
		p.runs(0, second, "login", two, "--store", store, "--profile", "work")
		if store == "keyring" { // the same service under a second name
			p.runs(0, first, "login", one, "--store", store, "--profile", "same")
			p.runs(0, "", "profiles", "rm", "same")
			if _, err := keyring.Get(keyringService, one+" same"); !errors.Is(err, keyring.ErrNotFound) {
				t.Errorf("the key of a removed profile is still in the keyring: %v", err)
			}
		}
		p.runs(0, "", "whoami")
		p.runs(0, "", "whoami", "--profile", "work")
		p.runs(0, "", "profiles", "use", "work")
		p.runs(0, "", "whoami")
		want := "default\tfalse\t" + one + "\towner\tsk_t…cret\t" + store + "\nwork\ttrue\t" + two + "\towner\tsk_t…cret\t" + store + "\n"
		if said := p.runs(0, "", "profiles", "list"); said != want {
			t.Errorf("the profiles are %q, want %q", said, want)
		}
		// --profile comes before the environment, which comes before the one in use.
		p.environ = append([]string{"STOA_BASE_URL=http://127.0.0.1:1", "STOA_API_KEY=sk_of_nobody"}, p.environ...)
		p.runs(1, "", "whoami")
		p.runs(0, "", "whoami", "--profile", "default")
		p.environ = p.environ[2:]
		p.runs(0, "", "logout")
		p.runs(0, "", "whoami")
	}
}

func TestAWrongKeyIsNotRemembered(t *testing.T) {
	t.Parallel()
	url := service(t, "sk_another_key_with_a_long_secret_in_it")
	p := newPerson(t)
	if said := p.runs(4, "sk_wrong_key_with_a_long_secret_in_it", "login", "--base-url", url); !strings.Contains(said, "check digits") {
		t.Errorf("it says %q", said)
	}
	if text := p.profile(); text != "" {
		t.Errorf("the profile is %q", text)
	}
}
