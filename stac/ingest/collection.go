package ingest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
	"github.com/zeebo/xxh3"
)

// found is a Collection that a discovery keeps for the streams behind it.
type found struct {
	URL        string          `json:"url"`
	Collection json.RawMessage `json:"collection"`
}

// foundPath is where a discovery keeps a Collection.
func foundPath(env *stream.Env, id string) string {
	sum := xxh3.HashString128(id).Bytes()
	return filepath.Join(env.Shared, hex.EncodeToString(sum[:])+".json")
}

// shareCollection leaves a Collection for the streams behind a discovery.
func shareCollection(env *stream.Env, c apiclient.Collection) error {
	if env.Shared == "" {
		return nil
	}
	if err := os.MkdirAll(env.Shared, 0o700); err != nil {
		return err
	}
	return save(foundPath(env, c.ID), found{URL: c.URL, Collection: c.Text})
}

// sendCollection sends a Collection to the steps behind that want it. Its text must be an object; its writer reports
// other errors.
func sendCollection(ctx context.Context, env *stream.Env, text []byte, at stream.Place, source string) error {
	if env.Tell == nil {
		return nil
	}
	v, err := item.Parse(text)
	if err != nil || v.Kind() != item.Object {
		return nil // nolint:nilerr // it has no members of a Collection
	}
	clean(v, source)
	return env.Tell(ctx, stream.New(v, at))
}

// wanted reports whether Collections are worth the trouble of finding them.
func wanted(env *stream.Env) bool { return env.Wants != nil && env.Wants() }

// sendCollections sends the Collections of a search: those looked up, and the one of a discovery. A missing one is no
// failure.
func (a *apiSource) sendCollections(ctx context.Context) error {
	if !wanted(a.env) {
		return nil
	}
	for _, c := range a.s.known {
		if err := sendCollection(ctx, a.env, c.Text, stream.Place{URL: shown(c.URL)}, a.client.URL()); err != nil {
			return err
		}
	}
	id := collectionMember(a.env, "id")
	if id == "" {
		return nil
	}
	var f found
	text, err := os.ReadFile(foundPath(a.env, id))
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil { // found by another execution, or on another machine
		c, err := a.client.Collection(ctx, id)
		if err != nil {
			a.env.Log(slog.LevelWarn, "the collection cannot be read; its description will be made of its items", slog.String("collection", id), slog.String("error", err.Error()))
			return nil
		}
		f = found{URL: c.URL, Collection: c.Text}
	}
	return sendCollection(ctx, a.env, f.Collection, stream.Place{URL: shown(f.URL)}, a.client.URL())
}

// clean removes foreign members of a Collection: those that begin with _, credentials in URLs, and the queries of links
// to the source itself, which may hold keys.
func clean(v *item.Value, source string) {
	var own []string
	for key := range v.Members() {
		if strings.HasPrefix(key, "_") {
			own = append(own, key)
		}
	}
	for _, key := range own {
		v.Delete(key)
	}
	at, err := url.Parse(source)
	if err != nil {
		at = &url.URL{}
	}
	for _, l := range v.Get("links").Elements() {
		cleanHref(l, at)
	}
	for _, a := range v.Get("assets").Members() {
		cleanHref(a, at)
	}
	for _, p := range v.Get("providers").Elements() {
		if text, ok := p.Get("url").Str(); ok {
			if clean := cleanURL(text, at); clean != text {
				p.Set("url", item.OfText(clean))
			}
		}
	}
}

func cleanHref(v *item.Value, at *url.URL) {
	if text, ok := v.Get("href").Str(); ok {
		if clean := cleanURL(text, at); clean != text {
			v.Set("href", item.OfText(clean))
		}
	}
}

func cleanURL(text string, at *url.URL) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return text
	}
	same := u.Host == "" || u.Host == at.Host
	if u.User == nil && (!same || u.RawQuery == "") {
		return text
	}
	u.User = nil
	if same {
		u.RawQuery, u.ForceQuery = "", false
	}
	return u.String()
}
