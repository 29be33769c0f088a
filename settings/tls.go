package settings

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// config makes the TLS configuration; nil without a certificate. The certificate is read again when its file has
// changed, so renewing it needs no restart.
func (t *TLS) config() (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	c := &certificate{cert: t.Cert, key: t.Key}
	if _, err := c.current(nil); err != nil {
		return nil, stepwell.Invalid("server.tls.cert and key are PEM files that belong together", "server.tls: %v", err)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.current, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCA == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, stepwell.Invalid("", "server.tls.client_ca: %v", err)
	}
	conf.ClientCAs, conf.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, stepwell.Invalid("it is a PEM file with one or more certificates", "server.tls.client_ca: %s holds no certificate", t.ClientCA)
	}
	return conf, nil
}

// certificate is a key pair that is read again when its file has changed.
type certificate struct {
	cert, key string

	mu      sync.Mutex
	pair    *tls.Certificate
	changed time.Time // of the file that pair was read from
}

// current is the pair as it is now; while a renewed one cannot be read, the one before.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.cert)
	if err == nil && c.pair != nil && info.ModTime().Equal(c.changed) {
		return c.pair, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.cert, c.key); err == nil {
			c.pair, c.changed = &pair, info.ModTime()
		}
	}
	if c.pair != nil {
		return c.pair, nil
	}
	return nil, err
}
