package drive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"stoa/internal/base/config"
)

const (
	s3Attempts = 3
	s3Pause    = 200 * time.Millisecond // pause before the second attempt; doubled before the third
	maxS3Error = 1 << 10                // maximum size of an error reply that is read, since it goes to the log
)

// An s3 sends requests to a bucket, which the library only signs, because the three operations do
// not justify a client of the whole protocol: it is ten times the size.
type s3 struct {
	client *http.Client
	sign   *v4.Signer
	keys   aws.Credentials
	region string
	base   url.URL // address of the bucket, with a slash at the end
	bucket string
}

type s3Error struct {
	method, bucket, host, status, code, message string // code and message may be empty
}

// settings maps codes of S3 to the settings that cause them, so that the log names what to correct.
var settings = map[string]string{
	"NoSuchBucket": "bucket", "InvalidBucketName": "bucket", "PermanentRedirect": "endpoint", "TemporaryRedirect": "endpoint",
	"InvalidAccessKeyId": "accessKey", "SignatureDoesNotMatch": "secretKey", "AuthorizationHeaderMalformed": "region", "InvalidRegion": "region",
	"XAdminUserNotFound": "accessKey", // versitygw 1.8
}

func (e *s3Error) Error() string {
	text := fmt.Sprintf("%s in the bucket %q at %s: %s", e.method, e.bucket, e.host, e.status)
	if e.code != "" {
		text += ": " + e.code
	}
	if e.message != "" {
		text += fmt.Sprintf(": %q", e.message)
	}
	switch setting := settings[e.code]; {
	case setting != "":
		text += " (see drive.store.s3." + setting + ")"
	case e.code == "RequestTimeTooSkewed":
		text += " (the clock of this machine or of the server is wrong)"
	case e.code == "AccessDenied":
		text += " (the key of drive.store.s3.accessKey needs rights to read, write and delete objects there)"
	}
	return text
}

// permanent reports whether the same request fails again until the operator changes something.
func (e *s3Error) permanent() bool {
	return settings[e.code] != "" || e.code == "AccessDenied" || e.code == "RequestTimeTooSkewed"
}

// element returns the text of an element of a reply in XML. It is not a parser, because the reply
// may be cut.
func element(reply []byte, name string) string {
	_, rest, _ := strings.Cut(string(reply), "<"+name+">")
	text, _, _ := strings.Cut(rest, "</"+name+">")
	return text
}

func newS3(cfg config.S3) (*s3, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("the endpoint of the bucket: %w", err)
	}
	u.Path = "/" + cfg.Bucket + "/"
	if strings.HasSuffix(u.Hostname(), ".amazonaws.com") && !strings.Contains(cfg.Bucket, ".") {
		u.Host, u.Path = cfg.Bucket+"."+u.Host, "/" // the form that Amazon requires
	}
	return &s3{
		sign: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }),
		keys: aws.Credentials{AccessKeyID: string(cfg.AccessKey), SecretAccessKey: string(cfg.SecretKey)}, region: cfg.Region, base: *u, bucket: cfg.Bucket,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:       http.ProxyFromEnvironment,
				DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, TLSHandshakeTimeout: 5 * time.Second,
				MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: getTime, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the request is not signed for another host
		},
	}, nil
}

// A s3Request is one request; key is the name of an object, or empty for the bucket.
type s3Request struct {
	method, key string
	query       string // parameters of a request about the bucket
	header      map[string]string
	body        func() io.Reader // may be nil
	size        int64
	sha256      string // hash of the body, which the server checks
}

// do sends a request and passes a reply with a 2xx status to read, which may be nil. It repeats
// the request if the server fails or the connection breaks, since all requests are idempotent.
func (s *s3) do(ctx context.Context, r s3Request, read func(io.Reader) error) (err error) {
	for attempt := 1; ; attempt++ {
		var again bool
		if again, err = s.once(ctx, r, read); err == nil || !again || attempt == s3Attempts || ctx.Err() != nil {
			return err
		}
		pause := time.NewTimer(s3Pause << (attempt - 1))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

func (s *s3) once(ctx context.Context, r s3Request, read func(io.Reader) error) (again bool, err error) {
	u := s.base
	u.Path += r.key
	u.RawQuery = r.query
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), http.NoBody)
	if err != nil {
		return false, err
	}
	if r.body != nil {
		req.Body, req.ContentLength = io.NopCloser(r.body()), r.size
	}
	if r.sha256 == "" {
		sum := sha256.Sum256(nil)
		r.sha256 = hex.EncodeToString(sum[:])
	}
	req.Header.Set("X-Amz-Content-Sha256", r.sha256)
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	if err := s.sign.SignHTTP(ctx, s.keys, req, r.sha256, "s3", s.region, time.Now()); err != nil {
		return false, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return true, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound && r.method == http.MethodDelete { // S3 requires 204, but not all services return it
		return false, nil
	}
	if res.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxS3Error))
		return res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests, &s3Error{
			method: r.method, bucket: s.bucket, host: s.base.Host, status: res.Status, code: element(text, "Code"), message: cmp.Or(element(text, "Message"), strings.TrimSpace(string(text))),
		}
	}
	if read != nil {
		return true, read(res.Body)
	}
	return false, nil
}
