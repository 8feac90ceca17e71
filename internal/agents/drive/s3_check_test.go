package drive_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
)

// TestARefusedBucketSaysWhy has servers that refuse HEAD without a body, as the protocol has it.
func TestARefusedBucketSaysWhy(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		status  int
		setting string
	}{
		"NoSuchBucket": {404, "drive.store.s3.bucket"}, "InvalidAccessKeyId": {403, "drive.store.s3.accessKey"}, "XAdminUserNotFound": {404, "drive.store.s3.accessKey"}, "SignatureDoesNotMatch": {403, "drive.store.s3.secretKey"},
		"AuthorizationHeaderMalformed": {400, "drive.store.s3.region"}, "RequestTimeTooSkewed": {403, "clock"}, "AccessDenied": {403, "rights"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			if r.Method != http.MethodHead {
				_, _ = w.Write([]byte("<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>Refused.</Message></Error>"))
			}
		}))
		defer server.Close()
		b, err := drive.NewBucket(config.S3{Endpoint: server.URL, Bucket: "stoa-files", Region: "us-east-1", AccessKey: "key", SecretKey: "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range []error{b.Check(t.Context()), b.Try(t.Context())} {
			if check == nil || strings.Contains(check.Error(), "s3cret") {
				t.Fatalf("%s: %v", code, check)
			}
			for _, part := range []string{code, c.setting, "stoa-files", strings.TrimPrefix(server.URL, "http://")} {
				if !strings.Contains(check.Error(), part) {
					t.Errorf("%s: no %s in %v", code, part, check)
				}
			}
		}
	}
}

func TestTryingABucketLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBucket(t, time.Hour)
	stored := 0
	b.stored = func() { stored++ }
	if err := b.Try(t.Context()); err != nil || stored != 1 || len(b.names(t)) != 0 {
		t.Errorf("%d stored, %v left: %v", stored, b.names(t), err)
	}
	b.refuse.Store(true)
	if err := b.Try(t.Context()); err == nil {
		t.Error("a bucket that refuses is accepted")
	}
}

// TestAWrongKeyIsNotTriedAgain: no repeat helps until the operator has changed a setting.
func TestAWrongKeyIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<Error><Code>InvalidAccessKeyId</Code></Error>"))
	}))
	t.Cleanup(server.Close)
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		b, err := drive.NewBucket(config.S3{Endpoint: server.URL, Bucket: "stoa-files", Region: "us-east-1", AccessKey: "key", SecretKey: "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		d.UseBucket(b)
		err = putBytes(t, d, "large.png", image(300_000))
		if e := stoa.AsError(err); e.Code != stoa.CodeOverloaded || e.RetryAfter != 0 || !strings.Contains(e.Message, "The operator has to correct its settings") {
			t.Errorf("%+v", e)
		}
	})
}
