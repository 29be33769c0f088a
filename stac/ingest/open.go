package ingest

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
)

// openIngest makes the source: of an API, or of files and static catalogs.
func (o Options) openIngest(ctx context.Context, env *stream.Env, s *settings) (any, error) {
	source, mode, err := s.target(env)
	if err != nil {
		return nil, err
	}
	var client *apiclient.Client
	if isWeb(source) {
		if client, err = s.open(o.HTTP, source); err != nil {
			return nil, err
		}
	}
	if mode != "file" {
		found, err := kindOf(ctx, client, mode)
		if err != nil {
			return nil, err
		}
		mode = found
	}
	if mode == "api" {
		return s.openAPI(ctx, env, client)
	}
	if wrong := s.onlyOfAPIs(); len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return o.openFiles(ctx, env, s, source, client)
}

// kindOf asks a URL whether it is an API.
func kindOf(ctx context.Context, client *apiclient.Client, mode string) (string, error) {
	l, err := client.Landing(ctx)
	if e, ok := errors.AsType[*apiclient.Error](err); ok && mode == "" && (e.Kind == "content" || e.Kind == "limit") {
		return "file", nil // no catalog, but maybe a list of items
	}
	switch {
	case err != nil:
		return "", networkError(err)
	case client.IsAPI(l):
		return "api", nil
	case slices.ContainsFunc(l.Links, func(l apiclient.Link) bool { return l.Rel == "items" }):
		return "", wrongConfig(client.URL()+" is the collection "+l.ID+" of an API", "give the API's landing page as catalog_url, and "+l.ID+" as collection_id")
	case mode == "api":
		return "", wrongConfig(client.URL()+" is no STAC API: it has neither conformsTo nor links to search or data", "leave mode out to have a static catalog read")
	}
	return "file", nil
}

// networkError gives an error of the client its place.
func networkError(err error) error {
	f := failureOf(err, "")
	return &stream.Error{Type: f.Type, Context: f.Context, Err: err}
}

// failures counts the failures that a source has recorded, and keeps the first.
type failures struct {
	failed int64
	first  error
}

func (f *failures) fail(failure stream.Failure, out stream.Out) error {
	f.failed++
	if f.first == nil {
		f.first = failure.Err
	}
	return out.Fail(failure)
}

func failureOf(err error, collection string) stream.Failure {
	f := stream.Failure{Type: stream.NetworkError, Collection: collection, Err: err}
	e, ok := errors.AsType[*apiclient.Error](err)
	if !ok {
		if stepwell.CodeOf(err) == stepwell.CodeInvalid {
			f.Type = stream.ConfigurationError
		}
		return f
	}
	f.Context = stream.Context{URL: e.URL, Status: e.Status, Attempt: e.Attempts}
	switch e.Kind {
	case apiclient.KindLoop:
		f.Type = stream.PaginationLoop
	case "content":
		f.Type = stream.DataProcessing
	}
	return f
}

// openAPI makes sure that the collections exist, and gives the source.
func (s *settings) openAPI(ctx context.Context, env *stream.Env, client *apiclient.Client) (any, error) {
	lists, err := client.CanList(ctx)
	if err != nil {
		return nil, networkError(err)
	}
	if s.Verify && env.Collection == nil && lists {
		for _, id := range s.search.Collections {
			c, err := client.Collection(ctx, id)
			if apiclient.StatusOf(err) == http.StatusNotFound {
				return nil, wrongConfig("collection "+id+" does not exist at "+client.URL(), "stac.discovery lists those that do")
			}
			if err != nil {
				return nil, networkError(err)
			}
			s.known = append(s.known, c)
		}
	}
	can, err := client.CanSearch(ctx)
	if err != nil {
		return nil, networkError(err)
	}
	src := &apiSource{s: s, env: env, client: client, canSearch: can, seen: apiclient.NewSeen()}
	if _, err := stream.State(env.Cursor, &src.from); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "cursor", Err: err}
	}
	return src, nil
}

// tryIngest looks whether the source is there.
func (o Options) tryIngest(ctx context.Context, env *stream.Env, s *settings) []error {
	if env.Collection == nil && s.Source == "" && s.CatalogURL == "" && s.SourceFile == "" {
		return nil // a future discovery's results cannot be checked yet
	}
	if _, err := o.openIngest(ctx, env, s); err != nil {
		return []error{err}
	}
	return nil
}

// required are the members without which an item is none (STAC item specification).
var required = []string{"type", "stac_version", "id", "geometry", "properties", "links", "assets"}

func complete(names []string) bool {
	for _, r := range required {
		if !slices.Contains(names, r) {
			return false
		}
	}
	return true
}
