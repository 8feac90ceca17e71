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
	"path/filepath"
	"strings"
	"time"

	"stoa/e2e/bench/internal/null"
)

// allVendors are the protocols of the vendor, each at its own address: HTTP/2 over TLS, as
// the public vendors use it, HTTP/1.1 over TLS, and plain HTTP/1.1.
var allVendors = []string{"h2", "tls", "plain"}

// listens reads the line that the commands vendor and proxy print.
func listens(line string) (string, bool) { return strings.CutPrefix(line, "listening on ") }

// startVendor starts the vendor with a certificate of a new authority, which the gateways
// trust, and sets d.vendorURL and d.trust.
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
		if allVendors[i] == "plain" {
			scheme = "http://"
		}
		d.vendorURL[allVendors[i]] = scheme + address
	}
	return p.Stop, nil
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

// runVendor is the command vendor: it prints an address for each of allVendors.
func runVendor(certificates string) error {
	vendor := &null.Vendor{}
	ended := make(chan error, len(allVendors))
	var addresses []string
	for _, name := range allVendors {
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
