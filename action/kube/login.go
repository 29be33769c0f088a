package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// Limits of programs that give credentials.
const (
	loginTimeout = time.Minute
	maxLogin     = 1 << 20
	// loginSpare is how long before their end credentials are renewed.
	loginSpare = 10 * time.Second
)

// login has the credentials of one user.
type login struct {
	cfg  *config
	now  func() time.Time
	hide func(values ...string)

	mu      sync.Mutex
	text    string           // the token; "" for none
	pair    *tls.Certificate // nil: none
	until   time.Time        // text and pair are read again then; zero: never
	current bool             // they have been read
}

func newLogin(cfg *config, now func() time.Time) (*login, error) {
	l := &login{cfg: cfg, now: now, hide: func(...string) {}}
	if cfg.Cert != nil {
		pair, err := tls.X509KeyPair(cfg.Cert, cfg.Key)
		if err != nil { // its text may quote the key
			return nil, stepwell.Invalid("", "the kubeconfig's client certificate and key do not fit each other")
		}
		l.pair = &pair
	}
	return l, nil
}

// token is the bearer token of the next request.
func (l *login) token(ctx context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.refresh(ctx)
	return l.text, err
}

// certificate is tls.Config.GetClientCertificate.
func (l *login) certificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(info.Context()); err != nil {
		return nil, err
	}
	if l.pair == nil {
		return &tls.Certificate{}, nil
	}
	return l.pair, nil
}

// renew has the credentials read again, and reports whether they may be others then.
func (l *login) renew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = false
	return l.cfg.Exec != nil || l.cfg.TokenFile != ""
}

func (l *login) refresh(ctx context.Context) error {
	if l.current && (l.until.IsZero() || l.now().Before(l.until)) {
		return nil
	}
	switch {
	case l.cfg.Exec != nil:
		if err := l.run(ctx); err != nil {
			return err
		}
	case l.cfg.TokenFile != "":
		raw, err := readFile(l.cfg.TokenFile, maxToken)
		if err != nil {
			return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the file with the token", Err: err}
		}
		l.text, l.until = strings.TrimSpace(string(raw)), l.now().Add(reread)
		if l.text == "" || strings.ContainsAny(l.text, "\r\n") {
			l.text = ""
			return stepwell.Errorf(stepwell.CodeUnavailable, "", "the file %s has no token", l.cfg.TokenFile)
		}
		l.hide(l.text)
	default:
		l.text = l.cfg.Token
	}
	l.current = true
	return nil
}

// credential is the answer of a program.
type credential struct {
	Status struct {
		Token   string    `json:"token"`
		Cert    string    `json:"clientCertificateData"`
		Key     string    `json:"clientKeyData"`
		Expires time.Time `json:"expirationTimestamp"`
	} `json:"status"`
}

// run asks the kubeconfig's program. Its output is never shown: it is a credential.
func (l *login) run(ctx context.Context) error {
	e := l.cfg.Exec
	ctx, end := context.WithTimeout(ctx, loginTimeout)
	defer end()
	cmd := exec.CommandContext(ctx, e.Command, e.Args...) // #nosec G204 -- the administrator's kubeconfig names it
	cmd.WaitDelay = time.Second
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "STEPWELL_") { // among them the master key
			cmd.Env = append(cmd.Env, v)
		}
	}
	for _, v := range e.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	info, err := json.Marshal(l.about())
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+string(info))
	out, said := &bounded{limit: maxLogin}, &bounded{limit: 4 << 10}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(said.String())
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the kubeconfig's program " + e.Command + " gives no credentials: " + stepwell.Clip(text, 1000), Err: err, Hint: stepwell.Clip(e.InstallHint, 500)}
	}
	var c credential
	if json.Unmarshal(out.Bytes(), &c) != nil || c.Status.Token == "" && c.Status.Cert == "" {
		return stepwell.Errorf(stepwell.CodeUnavailable, "", "the kubeconfig's program %s did not answer with an ExecCredential", e.Command)
	}
	l.hide(c.Status.Token, c.Status.Key)
	l.text, l.until = c.Status.Token, time.Time{}
	if c.Status.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(c.Status.Cert), []byte(c.Status.Key))
		if err != nil {
			return stepwell.Errorf(stepwell.CodeUnavailable, "", "the certificate and the key of the kubeconfig's program %s do not fit each other", e.Command)
		}
		l.pair = &pair
	}
	if !c.Status.Expires.IsZero() {
		l.until = c.Status.Expires.Add(-loginSpare)
		if soon := l.now().Add(time.Second); l.until.Before(soon) { // a clock that is behind must not start it for each request
			l.until = soon
		}
	}
	return nil
}

// about is what the program is told (KUBERNETES_EXEC_INFO).
func (l *login) about() any {
	spec := map[string]any{"interactive": false}
	if l.cfg.Exec.ClusterInfo {
		cluster := map[string]any{"server": l.cfg.Server.String()}
		if l.cfg.CA != nil {
			cluster["certificate-authority-data"] = l.cfg.CA
		}
		if l.cfg.ServerName != "" {
			cluster["tls-server-name"] = l.cfg.ServerName
		}
		spec["cluster"] = cluster
	}
	return map[string]any{"apiVersion": l.cfg.Exec.APIVersion, "kind": "ExecCredential", "spec": spec}
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	bytes.Buffer
	limit int
}

// Write implements io.Writer; what is beyond the limit is dropped.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
