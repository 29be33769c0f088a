package stactest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
)

// change answers the requests of transactions. The caller holds the lock.
func (s *Server) change(w http.ResponseWriter, r *request) {
	if _, ok := s.docs[r.collection]; !ok {
		notFound(w, "collection "+r.collection)
		return
	}
	if r.kind == "create" {
		s.create(w, r)
		return
	}
	key := r.collection + "\x00" + r.id
	e := s.index[key]
	if e == nil {
		notFound(w, "item "+r.id)
		return
	}
	if match := r.Header.Get("If-Match"); match != "" && match != e.etag() {
		reply(w, 412, map[string]any{"code": "PreconditionFailed", "description": "it is " + e.etag()})
		return
	}
	switch r.kind {
	case "delete":
		delete(s.index, key)
		s.items = slices.DeleteFunc(s.items, func(i *entry) bool { return i == e })
		w.WriteHeader(204)
		return
	case "put":
		got, err := entryOf(r.body)
		if err != nil || got.id != r.id || got.collection != r.collection {
			reply(w, 400, map[string]any{"code": "BadRequest", "description": "the item is not the one that the path names"})
			return
		}
		e.text = got.text
	case "patch":
		var doc, patch map[string]any
		if json.Unmarshal(e.text, &doc) != nil || json.Unmarshal(r.body, &patch) != nil {
			reply(w, 400, map[string]any{"code": "BadRequest", "description": "no merge patch"})
			return
		}
		text, err := json.Marshal(merge(doc, patch))
		if err != nil {
			panic(err) // it came from JSON
		}
		e.text = text
	}
	e.rev++
	w.Header().Set("ETag", e.etag())
	reply(w, 200, e.text)
}

// merge applies a merge patch (RFC 7386).
func merge(doc, patch map[string]any) map[string]any {
	if doc == nil {
		doc = map[string]any{}
	}
	for name, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(doc, name)
		case map[string]any:
			inner, _ := doc[name].(map[string]any) // anything else is replaced
			doc[name] = merge(inner, v)
		default:
			doc[name] = v
		}
	}
	return doc
}

// create stores an item, or the items of an ItemCollection: all or none, unless the options say otherwise.
// A conflict names no ids.
func (s *Server) create(w http.ResponseWriter, r *request) {
	var doc struct {
		Type     string
		Features []json.RawMessage
	}
	if err := json.Unmarshal(r.body, &doc); err != nil {
		reply(w, 400, map[string]any{"code": "BadRequest", "description": err.Error()})
		return
	}
	texts := doc.Features
	batch := doc.Type == "FeatureCollection"
	switch {
	case !batch:
		texts = []json.RawMessage{r.body}
	case s.o.Single:
		reply(w, http.StatusMethodNotAllowed, map[string]any{"code": "MethodNotAllowed", "description": "one at a time"})
		return
	case s.o.MaxBatch > 0 && len(texts) > s.o.MaxBatch:
		reply(w, http.StatusRequestEntityTooLarge, map[string]any{"code": "TooLarge", "description": "too many at once"})
		return
	}
	var fresh []*entry
	conflict, bad := false, false
	for _, text := range texts {
		e, err := entryOf(text)
		if err != nil || e.collection != r.collection {
			bad = true
			break
		}
		if _, there := s.index[e.collection+"\x00"+e.id]; there {
			conflict = true
			break
		}
		fresh = append(fresh, e)
	}
	if !conflict && !bad || s.o.Partial {
		for _, e := range fresh {
			s.keep(e)
		}
	}
	switch {
	case bad:
		reply(w, 400, map[string]any{"code": "BadRequest", "description": "an item has no id or another collection"})
	case conflict:
		reply(w, 409, map[string]any{"code": "Conflict", "description": "an item is there already"})
	default:
		if !batch {
			w.Header().Set("Location", r.base+"/collections/"+url.PathEscape(r.collection)+"/items/"+url.PathEscape(fresh[0].id))
			w.Header().Set("ETag", fresh[0].etag())
		}
		reply(w, 201, map[string]any{"type": "FeatureCollection", "features": []any{}})
	}
}
