package kube

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Limits of what is read from files and secrets.
const (
	maxKubeconfig = 1 << 20
	maxToken      = 64 << 10
	// reread is how long what was read of a kubeconfig is used.
	reread = time.Minute
)

// config is what a client needs of a kubeconfig: one cluster and one user.
type config struct {
	Server     *url.URL
	ServerName string // expected in the certificate; "": the host of Server
	CA         []byte // PEM; nil: the system's authorities
	Insecure   bool
	Proxy      *url.URL // nil: the environment's
	Namespace  string
	guarded    bool // it leads to no address that steps may not reach

	Cert, Key []byte // PEM
	Token     string
	TokenFile string
	Exec      *execPlugin
}

// execPlugin is a program that gives credentials (client.authentication.k8s.io).
type execPlugin struct {
	APIVersion  string    `yaml:"apiVersion"`
	Command     string    `yaml:"command"`
	Args        []string  `yaml:"args"`
	Env         []nameVal `yaml:"env"`
	Interactive string    `yaml:"interactiveMode"`
	ClusterInfo bool      `yaml:"provideClusterInfo"`
	InstallHint string    `yaml:"installHint"`
}

type nameVal struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// kubeconfigFile is the part of a kubeconfig that is used.
type kubeconfigFile struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster   string `yaml:"cluster"`
			User      string `yaml:"user"`
			Namespace string `yaml:"namespace"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string      `yaml:"name"`
		Cluster fileCluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string   `yaml:"name"`
		User fileUser `yaml:"user"`
	} `yaml:"users"`
}

type fileCluster struct {
	Server     string `yaml:"server"`
	ServerName string `yaml:"tls-server-name"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
	CAFile     string `yaml:"certificate-authority"`
	CA         string `yaml:"certificate-authority-data"`
	Proxy      string `yaml:"proxy-url"`
}

type fileUser struct {
	CertFile     string      `yaml:"client-certificate"`
	Cert         string      `yaml:"client-certificate-data"`
	KeyFile      string      `yaml:"client-key"`
	Key          string      `yaml:"client-key-data"`
	Token        string      `yaml:"token"`
	TokenFile    string      `yaml:"tokenFile"`
	Exec         *execPlugin `yaml:"exec"`
	Username     string      `yaml:"username"`
	Password     string      `yaml:"password"`
	AuthProvider *yaml.Node  `yaml:"auth-provider"`
	As           string      `yaml:"as"`
}

// parseKubeconfig reads the text of a kubeconfig. Files that it names are relative to dir. With dir "" it may name neither files nor
// programs (CodeDenied): then whoever writes it is not somebody who may run programs or read files here.
func parseKubeconfig(text []byte, context, dir string) (*config, error) {
	var f kubeconfigFile
	if err := decodeKubeconfig(text, &f); err != nil {
		return nil, err
	}
	if context == "" {
		context = f.Current
	}
	if context == "" && len(f.Contexts) == 1 {
		context = f.Contexts[0].Name
	}
	at := -1
	for i := range f.Contexts {
		if f.Contexts[i].Name == context {
			at = i
		}
	}
	if at < 0 {
		return nil, stepwell.Invalid("name one of its contexts", "the kubeconfig has no context %q", stepwell.Clip(context, 80))
	}
	named := f.Contexts[at].Context
	cfg := &config{Namespace: named.Namespace}
	if cfg.Namespace != "" && !dnsLabel().MatchString(cfg.Namespace) {
		return nil, stepwell.Invalid("", "the kubeconfig's namespace %q is not the name of one", stepwell.Clip(cfg.Namespace, 80))
	}
	found := false
	for i := range f.Clusters {
		if f.Clusters[i].Name == named.Cluster && !found {
			found = true
			if err := cfg.setCluster(&f.Clusters[i].Cluster, dir); err != nil {
				return nil, err
			}
		}
	}
	if !found {
		return nil, stepwell.Invalid("", "the kubeconfig has no cluster %q", stepwell.Clip(named.Cluster, 80))
	}
	for i := range f.Users {
		if f.Users[i].Name == named.User {
			return cfg, cfg.setUser(&f.Users[i].User, dir)
		}
	}
	if named.User != "" {
		return nil, stepwell.Invalid("", "the kubeconfig has no user %q", stepwell.Clip(named.User, 80))
	}
	return cfg, nil
}

// decodeKubeconfig decodes YAML without aliases, which a kubeconfig never needs and which multiply its size.
func decodeKubeconfig(text []byte, into *kubeconfigFile) error {
	if len(text) > maxKubeconfig {
		return stepwell.Errorf(stepwell.CodeLimit, "", "the kubeconfig is larger than %d KiB", maxKubeconfig>>10)
	}
	var root yaml.Node
	// An error of the decoder may quote what it has read.
	unreadable := stepwell.Invalid("", "the kubeconfig is not one: it cannot be read as YAML with contexts, clusters and users")
	if err := yaml.Unmarshal(text, &root); err != nil {
		return unreadable
	}
	if hasAlias(&root) {
		return stepwell.Invalid("", "the kubeconfig has YAML aliases")
	}
	if err := root.Decode(into); err != nil {
		return unreadable
	}
	return nil
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

func (cfg *config) setCluster(c *fileCluster, dir string) (err error) {
	if cfg.Server, err = url.Parse(c.Server); err != nil || cfg.Server.Host == "" || cfg.Server.Scheme != "https" && cfg.Server.Scheme != "http" || cfg.Server.RawQuery != "" || cfg.Server.User != nil {
		return stepwell.Invalid("", "the kubeconfig's server is not an http(s) address")
	}
	if c.Proxy != "" {
		if cfg.Proxy, err = url.Parse(c.Proxy); err != nil || cfg.Proxy.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, cfg.Proxy.Scheme) {
			return stepwell.Invalid("", "the kubeconfig's proxy-url is not an http, https or socks5 address")
		}
	}
	cfg.ServerName, cfg.Insecure = c.ServerName, c.Insecure
	if cfg.CA, err = inlineOrFile("certificate-authority", c.CA, c.CAFile, dir); err != nil {
		return err
	}
	if cfg.Insecure && cfg.CA != nil {
		return stepwell.Invalid("leave one of them out", "the kubeconfig has insecure-skip-tls-verify beside a certificate authority")
	}
	return nil
}

func (cfg *config) setUser(u *fileUser, dir string) (err error) {
	switch {
	case u.AuthProvider != nil:
		return stepwell.Invalid("use an exec plugin, a token or a certificate", "the kubeconfig's auth-provider is not supported")
	case u.Username != "" || u.Password != "":
		return stepwell.Invalid("use a token or a certificate", "the kubeconfig has a password, which Kubernetes no longer accepts")
	case u.As != "":
		return stepwell.Invalid("use the credentials of that user", "the kubeconfig's impersonation (as) is not supported")
	case u.Exec != nil && dir == "":
		return stepwell.Errorf(stepwell.CodeDenied, "use a token or a certificate, or name a kubeconfig file in the settings", "a kubeconfig from a secret or over the API must not name a program (exec)")
	case u.TokenFile != "" && dir == "":
		return filesDenied("tokenFile")
	}
	if cfg.Cert, err = inlineOrFile("client-certificate", u.Cert, u.CertFile, dir); err != nil {
		return err
	}
	if cfg.Key, err = inlineOrFile("client-key", u.Key, u.KeyFile, dir); err != nil {
		return err
	}
	if (cfg.Cert == nil) != (cfg.Key == nil) {
		return stepwell.Invalid("", "the kubeconfig has a client certificate without its key, or a key without its certificate")
	}
	cfg.Token = u.Token
	if strings.ContainsAny(cfg.Token, "\r\n") {
		return stepwell.Invalid("", "the kubeconfig's token has more than one line")
	}
	if u.TokenFile != "" {
		cfg.TokenFile = below(dir, u.TokenFile)
	}
	if u.Exec != nil {
		return cfg.setExec(u.Exec, dir)
	}
	return nil
}

func (cfg *config) setExec(e *execPlugin, dir string) error {
	switch {
	case e.Command == "":
		return stepwell.Invalid("", "the kubeconfig's exec names no command")
	case e.APIVersion != "client.authentication.k8s.io/v1" && e.APIVersion != "client.authentication.k8s.io/v1beta1":
		return stepwell.Invalid("client.authentication.k8s.io/v1", "the kubeconfig's exec has the unknown apiVersion %q", stepwell.Clip(e.APIVersion, 80))
	case e.Interactive == "Always":
		return stepwell.Invalid("", "the kubeconfig's exec needs a terminal (interactiveMode: Always)")
	}
	if strings.ContainsRune(e.Command, filepath.Separator) || strings.Contains(e.Command, "/") {
		e.Command = below(dir, e.Command)
	}
	cfg.Exec = e
	return nil
}

func filesDenied(key string) error {
	return stepwell.Errorf(stepwell.CodeDenied, "put its content into the kubeconfig: kubectl config view --flatten", "a kubeconfig from a secret or over the API must not name a file (%s)", key)
}

func below(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// inlineOrFile is a PEM text of a kubeconfig, which stands in it (base64) or in a file.
func inlineOrFile(key, inline, file, dir string) ([]byte, error) {
	if inline != "" {
		raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(inline), ""))
		if err != nil || len(raw) == 0 {
			return nil, stepwell.Invalid("", "the kubeconfig's %s-data is not base64", key)
		}
		return raw, nil
	}
	if file == "" {
		return nil, nil
	}
	if dir == "" {
		return nil, filesDenied(key)
	}
	raw, err := readFile(below(dir, file), maxKubeconfig)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the kubeconfig's " + key, Err: err}
	}
	return raw, nil
}

// readFile reads a file of limited size.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = stepwell.Errorf(stepwell.CodeLimit, "", "%s is larger than %d KiB", name, limit>>10)
	}
	return raw, err
}

// load is the cluster's kubeconfig, at most a minute old.
func (c *Cluster) load(ctx context.Context) (*config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loadLocked(ctx)
}

func (c *Cluster) loadLocked(ctx context.Context) (*config, error) {
	now := c.clusters.o.Now()
	if age := now.Sub(c.read); c.config != nil && age >= 0 && age < reread {
		return c.config, nil
	}
	cfg, err := c.readConfig(ctx)
	if err != nil {
		return nil, atCluster(c.id, err)
	}
	c.clusters.o.Hide(cfg.secrets()...)
	if c.config == nil || !bytes.Equal(c.config.encode(), cfg.encode()) {
		c.config, c.client = cfg, nil
	}
	c.read = now
	return c.config, nil
}

// atCluster puts the cluster's id in front of an error, and keeps its code.
func atCluster(id string, err error) error {
	return &stepwell.Error{Code: stepwell.CodeOf(err), Message: "cluster " + id, Hint: stepwell.HintOf(err), Err: err}
}

func (c *Cluster) readConfig(ctx context.Context) (*config, error) {
	switch a := &c.access; {
	case c.created != nil:
		return c.readCreated(ctx)
	case a.Service != "":
		return nil, action.Fail(stepwell.Invalid("name a cluster with a kubeconfig", "it is behind the service %s, which runs jobs and nothing else", a.Service))
	case a.InCluster:
		return inCluster(serviceAccount)
	case a.Secret != "":
		if c.clusters.o.Secret == nil {
			return nil, stepwell.Invalid("name a kubeconfig file", "its kubeconfig is a secret, and this process has no secrets")
		}
		text, err := c.clusters.o.Secret(ctx, a.Secret)
		if err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeOf(err), Hint: "stepwell secrets set " + a.Secret, Message: "the secret " + a.Secret + " with its kubeconfig", Err: err}
		}
		return parseKubeconfig([]byte(text), a.Context, "")
	default:
		name, err := homed(a.Kubeconfig)
		if err != nil {
			return nil, err
		}
		text, err := readFile(name, maxKubeconfig)
		if err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "its kubeconfig", Err: err}
		}
		return parseKubeconfig(text, a.Context, filepath.Dir(name))
	}
}

// homed makes the name of a kubeconfig file absolute.
func homed(name string) (string, error) {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", stepwell.Invalid("write the whole path", "the kubeconfig %s: there is no home directory", name)
		}
		return filepath.Join(home, rest), nil
	}
	return filepath.Abs(name)
}

// serviceAccount is where a pod finds the credentials of its service account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// inCluster is the config of a process in a pod.
func inCluster(dir string) (*config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, stepwell.Invalid("name a kubeconfig file", "in_cluster: this process does not run in a pod")
	}
	cfg := &config{Server: &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, TokenFile: filepath.Join(dir, "token")}
	ca, err := readFile(filepath.Join(dir, "ca.crt"), maxKubeconfig)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "in_cluster: the service account's ca.crt", Err: err}
	}
	cfg.CA = ca
	if raw, err := readFile(filepath.Join(dir, "namespace"), 1000); err == nil {
		cfg.Namespace = strings.TrimSpace(string(raw))
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "in_cluster: the service account's namespace", Err: err}
	}
	return cfg, nil
}

// secrets are the values that must never be shown.
func (cfg *config) secrets() (list []string) {
	if cfg.Token != "" {
		list = append(list, cfg.Token)
	}
	if len(cfg.Key) > 0 {
		list = append(list, string(cfg.Key))
	}
	if cfg.Proxy != nil {
		if password, ok := cfg.Proxy.User.Password(); ok {
			list = append(list, password)
		}
	}
	return list
}

// encode writes a kubeconfig with this one context. It is JSON, and so YAML.
func (cfg *config) encode() []byte {
	type m = map[string]any
	cluster, user := m{"server": cfg.Server.String()}, m{}
	set := func(in m, key string, value any, given bool) {
		if given {
			in[key] = value
		}
	}
	set(cluster, "tls-server-name", cfg.ServerName, cfg.ServerName != "")
	set(cluster, "certificate-authority-data", cfg.CA, cfg.CA != nil)
	set(cluster, "insecure-skip-tls-verify", true, cfg.Insecure)
	if cfg.Proxy != nil {
		cluster["proxy-url"] = cfg.Proxy.String()
	}
	set(user, "client-certificate-data", cfg.Cert, cfg.Cert != nil)
	set(user, "client-key-data", cfg.Key, cfg.Key != nil)
	set(user, "token", cfg.Token, cfg.Token != "")
	set(user, "tokenFile", cfg.TokenFile, cfg.TokenFile != "")
	if e := cfg.Exec; e != nil {
		env := []m{}
		for _, v := range e.Env {
			env = append(env, m{"name": v.Name, "value": v.Value})
		}
		user["exec"] = m{"apiVersion": e.APIVersion, "command": e.Command, "args": e.Args, "env": env, "interactiveMode": "Never", "provideClusterInfo": e.ClusterInfo}
	}
	context := m{"cluster": "stepwell", "user": "stepwell"}
	set(context, "namespace", cfg.Namespace, cfg.Namespace != "")
	raw, err := json.Marshal(m{"apiVersion": "v1", "kind": "Config", "current-context": "stepwell",
		"clusters": []m{{"name": "stepwell", "cluster": cluster}}, "users": []m{{"name": "stepwell", "user": user}}, "contexts": []m{{"name": "stepwell", "context": context}}})
	if err != nil { // texts only
		return nil
	}
	return raw
}
