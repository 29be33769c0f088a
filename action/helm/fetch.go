package helm

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// maxIndex bounds the index of a repository and the documents of a registry.
const maxIndex = 64 << 20

// ask sends a request as util.http would, and reads a success.
func (i *installation) ask(ctx context.Context, address string, header http.Header, limit int64) ([]byte, *outbound.Response, error) {
	resp, err := i.h.client.Do(ctx, &outbound.Request{URL: address, Header: header, Redirects: 5, MaxBytes: limit,
		Timeouts: outbound.Timeouts{Connect: 10 * time.Second, FirstByte: time.Minute, Idle: time.Minute, Total: 5 * time.Minute}})
	if err != nil {
		return nil, nil, err
	}
	defer resp.Close() // nolint:errcheck // all needed has been read
	text, err := io.ReadAll(resp.Body)
	if resp.Status < 200 || resp.Status > 299 {
		return nil, resp, resp.StatusFailure(text)
	}
	return text, resp, err
}

// get fetches a document of the place; credentials go to the host of the repository or registry alone.
func (i *installation) get(ctx context.Context, at place, address, accept string, limit int64) ([]byte, error) {
	home := cmp.Or(at.oci, at.repo, at.archive)
	header := http.Header{"Accept": {accept}}
	u, err := url.Parse(address)
	if err != nil {
		return nil, action.Invalid("", "the repository names an address that is none")
	}
	own := outbound.SameOrigin(u, home)
	if own && at.oci == nil {
		i.authorize(header)
	}
	text, resp, err := i.ask(ctx, address, header, limit)
	if own && at.oci != nil && resp != nil && resp.Status == http.StatusUnauthorized {
		if err := i.logIn(ctx, resp, header); err != nil {
			return nil, err
		}
		text, _, err = i.ask(ctx, address, header, limit)
	}
	if err != nil {
		return nil, i.steer(ctx, err)
	}
	return text, nil
}

// authorize adds the step's credential.
func (i *installation) authorize(header http.Header) {
	if c := i.p.Credential; c != nil {
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)))
	}
}

// steer decides whether another attempt may help, as util.http decides.
func (i *installation) steer(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*outbound.Failure](err); ok {
		if f.Err.Hint == "" && f.Status == http.StatusNotFound {
			f.Err.Hint = "check chart, repo and version"
		}
		return outbound.Steer(ctx, i.call, f, outbound.Policy{})
	}
	return err
}

// findIndexed finds a chart in the index of a repository.
func (i *installation) findIndexed(ctx context.Context, at place) (source, error) {
	base := *at.repo
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	file := base
	file.Path += "index.yaml"
	text, err := i.get(ctx, at, file.String(), "application/yaml, text/yaml, */*", maxIndex)
	if err != nil {
		return source{}, err
	}
	var index struct {
		Entries map[string][]struct {
			Version string   `yaml:"version"`
			URLs    []string `yaml:"urls"`
			Digest  string   `yaml:"digest"`
		} `yaml:"entries"`
	}
	if err := yaml.Unmarshal(text, &index); err != nil {
		return source{}, action.Invalid("repo is the address of a folder with index.yaml", "the index of the repository is not YAML with charts")
	}
	entries := index.Entries[at.name]
	var versions []string
	for _, e := range entries {
		versions = append(versions, e.Version)
	}
	version, err := i.choose(versions)
	if err != nil {
		return source{}, err
	}
	for _, e := range entries {
		if e.Version != version {
			continue
		}
		if len(e.URLs) == 0 {
			break
		}
		archive, err := base.Parse(e.URLs[0])
		if err != nil || archive.Scheme != "https" && archive.Scheme != "http" || archive.User != nil {
			return source{}, action.Invalid("", "the repository keeps the chart %s where it cannot be fetched from", at.name)
		}
		if sum := strings.TrimPrefix(e.Digest, "sha256:"); hexSum().MatchString(sum) {
			return source{URL: archive.String(), Version: version, SHA256: sum}, nil
		}
		return source{URL: archive.String(), Version: version}, nil
	}
	return source{}, action.Invalid("", "the repository does not say where the chart %s %s is", at.name, version)
}

var hexSum = action.Pattern(`^[0-9a-f]{64}$`)

// choose picks the version that is asked for, or the newest.
func (i *installation) choose(versions []string) (string, error) {
	plain := func(v string) string { return strings.TrimPrefix(v, "v") }
	for _, v := range versions {
		if i.p.Version != "" && plain(v) == plain(i.p.Version) {
			return v, nil
		}
	}
	if i.p.Version == "" {
		if v := newest(versions); v != "" {
			return v, nil
		}
	}
	hint := "check the chart's name and the repository's address"
	if len(versions) > 0 {
		hint = "there are " + strings.Join(versions[:min(len(versions), 10)], ", ")
	}
	return "", action.Fail(stepwell.Errorf(stepwell.CodeNotFound, hint, "the repository has no chart %s %s", i.p.Chart, cmp.Or(i.p.Version, "that is not a pre-release")))
}

// Media types of registries.
const (
	manifestTypes = "application/vnd.oci.image.manifest.v1+json"
	layerType     = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// findOCI finds a chart in a registry (OCI distribution specification).
func (i *installation) findOCI(ctx context.Context, repository *url.URL) (source, error) {
	at := place{oci: repository}
	name := strings.Trim(repository.Path, "/")
	api := "https://" + repository.Host + "/v2/" + name
	version := i.p.Version
	if version == "" {
		text, err := i.get(ctx, at, api+"/tags/list?n=1000", "application/json", maxIndex)
		if err != nil {
			return source{}, err
		}
		var list struct{ Tags []string }
		if err := json.Unmarshal(text, &list); err != nil {
			return source{}, action.Invalid("", "the registry's list of tags is not JSON")
		}
		for n := range list.Tags {
			list.Tags[n] = strings.ReplaceAll(list.Tags[n], "_", "+") // a tag has no +
		}
		if version, err = i.choose(list.Tags); err != nil {
			return source{}, err
		}
	}
	text, err := i.get(ctx, at, api+"/manifests/"+strings.ReplaceAll(version, "+", "_"), manifestTypes, 4<<20)
	if err != nil {
		return source{}, err
	}
	var manifest struct {
		Layers []struct {
			MediaType string `json:"mediaType"`
			Digest    string `json:"digest"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return source{}, action.Invalid("", "the registry's manifest of the chart is not JSON")
	}
	for _, layer := range manifest.Layers {
		if sum := strings.TrimPrefix(layer.Digest, "sha256:"); layer.MediaType == layerType && hexSum().MatchString(sum) {
			return source{URL: api + "/blobs/" + layer.Digest, Version: version, SHA256: sum}, nil
		}
	}
	return source{}, action.Invalid("name the repository of a chart", "what the registry has by this name is not a Helm chart")
}

var challengePart = action.Pattern(`([a-zA-Z]+)="([^"]*)"`)

// logIn answers a registry's challenge: it sends the credential, or has the registry's token service turn it into a token.
func (i *installation) logIn(ctx context.Context, resp *outbound.Response, header http.Header) error {
	challenge := resp.Header.Get("WWW-Authenticate")
	scheme, rest, _ := strings.Cut(challenge, " ")
	if strings.EqualFold(scheme, "Basic") && i.p.Credential != nil {
		i.authorize(header)
		return nil
	}
	parts := map[string]string{}
	for _, m := range challengePart().FindAllStringSubmatch(rest, 10) {
		parts[strings.ToLower(m[1])] = m[2]
	}
	realm, err := url.Parse(parts["realm"])
	if !strings.EqualFold(scheme, "Bearer") || err != nil || realm.Scheme != "https" || realm.Host == "" {
		return action.Fail(stepwell.Errorf(stepwell.CodeDenied, "give a credential", "the registry requires credentials"))
	}
	query := realm.Query()
	for _, name := range []string{"service", "scope"} {
		if parts[name] != "" {
			query.Set(name, parts[name])
		}
	}
	realm.RawQuery = query.Encode()
	asking := http.Header{"Accept": {"application/json"}}
	i.authorize(asking)
	text, _, err := i.ask(ctx, realm.String(), asking, 1<<20)
	if err != nil {
		return i.steer(ctx, err)
	}
	var given struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(text, &given); err != nil || given.Token == "" && given.AccessToken == "" {
		return action.Fail(stepwell.Errorf(stepwell.CodeDenied, "", "the registry's token service gives no token"))
	}
	header.Set("Authorization", "Bearer "+cmp.Or(given.Token, given.AccessToken))
	return nil
}
