//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stoa/e2e/bench/internal/null"
	"stoa/e2e/bench/internal/proc"
)

// ownVendors are the protocols that the vendor speaks itself, each at its own address: HTTP/2
// over TLS, HTTP/1.1 over TLS, and plain HTTP/1.1. allVendors has nginx too, which speaks HTTP/2
// over TLS to the gateway and plain HTTP to the vendor, because public vendors are behind such a
// server: it frames a reply differently from Go's, which has nothing between itself and the network.
var (
	ownVendors = []string{"h2", "tls", "plain"}
	allVendors = append(slices.Clone(ownVendors), "nginx")
)

// listens reads the line that the commands vendor and proxy print.
func listens(line string) (string, bool) { return strings.CutPrefix(line, "listening on ") }

// startVendor starts the vendor with a certificate of a new authority, which the gateways
// trust, and nginx before it if it is measured and installed. It sets d.vendorURL and d.trust.
func (d *driver) startVendor() (stop func() error, err error) {
	dir := filepath.Join(d.dir, "certificates")
	if err := newCertificates(dir); err != nil {
		return nil, err
	}
	p, addresses, err := d.self("vendor", dir)
	if err != nil {
		return nil, err
	}
	d.trust = "SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem")
	d.vendorURL = map[string]string{}
	for i, address := range strings.Fields(addresses) {
		scheme := "https://"
		if ownVendors[i] == "plain" {
			scheme = "http://"
		}
		d.vendorURL[ownVendors[i]] = scheme + address
	}
	if !slices.Contains(d.vendors, "nginx") {
		return p.Stop, nil
	}
	front, err := d.startNginx(dir)
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return func() error { return errors.Join(front(), p.Stop()) }, nil
}

// nginxConfig passes each piece of a reply on when it arrives, as a vendor of streams must.
const nginxConfig = `
daemon off;
worker_processes auto;
error_log stderr error;
pid %[1]s/nginx.pid;
events { worker_connections 8192; }
http {
	access_log off;
	client_body_temp_path %[1]s/bodies;
	proxy_temp_path %[1]s/replies;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	upstream vendor { server %[2]s; keepalive 1024; keepalive_requests 1000000; }
	server {
		listen %[3]s ssl http2;
		ssl_certificate %[4]s/cert.pem;
		ssl_certificate_key %[4]s/key.pem;
		keepalive_requests 1000000;
		client_max_body_size 0;
		client_body_buffer_size 1m;
		location / {
			proxy_pass http://vendor;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
			proxy_read_timeout 10m;
		}
	}
}
`

// startNginx starts nginx before the plain vendor. Without nginx it removes it from the vendors.
func (d *driver) startNginx(certificates string) (stop func() error, err error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/nginx")
	}
	if err != nil {
		d.vendors = slices.DeleteFunc(d.vendors, func(v string) bool { return v == "nginx" })
		if len(d.vendors) == 0 {
			return nil, errors.New("nginx is not installed, and no other vendor is to be measured")
		}
		fmt.Fprintln(d.note, "bench: skipped: the vendor behind nginx, since nginx is not installed")
		return func() error { return nil }, nil
	}
	dir := filepath.Join(d.dir, "nginx")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Appendf(nil, nginxConfig, dir, strings.TrimPrefix(d.vendorURL["plain"], "http://"), address, certificates)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, err
	}
	d.vendorURL["nginx"] = "https://" + address
	p, err := proc.Listening(proc.Command{Path: path, Args: []string{"-p", dir, "-c", config}, Env: os.Environ(), Log: filepath.Join(d.dir, "nginx.log")}, address)
	if err != nil {
		return nil, err
	}
	return p.Stop, nil
}

// freeAddress returns an address for a program that cannot choose a free port, or cannot report it.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// newCertificates writes an authority to ca.pem, and a certificate of it for the
// loopback address to cert.pem and key.pem.
func newCertificates(dir string) error {
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "bench vendor"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
	}
	authorityKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ca, err1 := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	cert, err2 := x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, authorityKey)
	private, err3 := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err1, err2, err3, os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	write := func(name, kind string, b []byte) error {
		return os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600)
	}
	return errors.Join(write("ca.pem", "CERTIFICATE", ca), write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", private))
}

// runVendor is the command vendor: it prints an address for each of ownVendors.
func runVendor(certificates string) error {
	vendor := &null.Vendor{}
	ended := make(chan error, len(ownVendors))
	var addresses []string
	for _, name := range ownVendors {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addresses = append(addresses, l.Addr().String())
		s := &http.Server{Handler: vendor, Protocols: &http.Protocols{}, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(os.Stderr, "", 0)}
		s.Protocols.SetHTTP1(name != "h2")
		s.Protocols.SetHTTP2(name == "h2")
		go func() {
			if name == "plain" {
				ended <- s.Serve(l)
			} else {
				ended <- s.ServeTLS(l, filepath.Join(certificates, "cert.pem"), filepath.Join(certificates, "key.pem"))
			}
		}()
	}
	fmt.Println("listening on", strings.Join(addresses, " "))
	return <-ended
}

// runProxy is the command proxy: Go's ReverseProxy with its defaults, except that
// connections to the vendor are kept.
func runProxy(vendor string) error {
	target, err := url.Parse(vendor)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1<<20
	transport.DisableCompression = true
	p := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ErrorLog:  log.New(os.Stderr, "", 0),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	// Without full duplex the server closes the request's body when the response begins,
	// which cuts the stream of a vendor that answers before the transport has read the whole
	// body.
	duplex := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p.ServeHTTP(w, r)
	})
	return (&http.Server{Handler: duplex, ReadHeaderTimeout: time.Minute}).Serve(l)
}

func (d *driver) proxy() *gateway {
	return &gateway{name: "proxy", wires: []string{"responses"}, start: func(vendor string, _ ...string) (*running, error) {
		p, address, err := d.self("proxy", d.vendorURL[vendor])
		if err != nil {
			return nil, err
		}
		// The vendor ignores the model.
		return &running{Process: p, address: address, path: "/v1/responses", key: ownerKey, model: func(string) string { return "null" }}, nil
	}}
}
