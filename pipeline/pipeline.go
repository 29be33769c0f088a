// Package pipeline keeps the pipelines that people store, and launches executions.
//
// A stored pipeline has a name and numbered versions that never change; whoever edits it adds a version (docs/semantics
// §2). Executions keep a snapshot of what they run, so nothing that happens to a stored pipeline touches one. Launch
// is the one way by which the API and all triggers start something: a stored pipeline, a document, or a single action.
//
// A Library keeps its data in store.Objects under the kinds "pipeline" and "pipeline_version"; other processes may
// use the same store. Stability: experimental until version 1.
package pipeline

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// The kinds of objects.
const (
	kindPipeline = "pipeline"
	kindVersion  = "pipeline_version"
)

// Pipeline is a stored pipeline, without its documents.
type Pipeline struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"` // unique among stored pipelines
	Description string    `json:"description,omitempty"`
	Version     int       `json:"version"` // the newest one
	Steps       int       `json:"step_count"`
	Draft       bool      `json:"draft,omitempty"`    // the newest version has problems and cannot be launched
	Archived    bool      `json:"archived,omitempty"` // takes no new versions and is not launched
	CreatedBy   string    `json:"created_by,omitempty"`
	Revision    int64     `json:"-"` // for the ETag: moves with every change
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
}

// Version is one version of a stored pipeline. It never changes.
type Version struct {
	Pipeline string    `json:"pipeline_id"`
	Version  int       `json:"version"` // from 1 without gaps
	Name     string    `json:"name"`    // in the document
	Digest   string    `json:"digest"`  // SHA-256 of the document, in hexadecimal
	Steps    int       `json:"step_count"`
	Draft    bool      `json:"draft,omitempty"`
	Note     string    `json:"note,omitempty"`
	Author   string    `json:"author,omitempty"`
	Role     string    `json:"author_role,omitempty"` // of the author, when it was stored: what its steps may do goes by it
	Document string    `json:"document,omitempty"`    // as it was given; left out of lists
	Created  time.Time `json:"created_at"`
}

// Draft is what somebody wants to store.
type Draft struct {
	Document []byte // YAML or JSON
	Draft    bool   // store it although it has problems, as long as it has a name
	Note     string // why, for the list of versions; at most 1,000 bytes
	Author   string
	Role     string // of the author
}

// Filter selects stored pipelines, in order of id.
type Filter struct {
	After    string // id of the last one of the page before
	Limit    int    // Defaults to 50, at most 1,000
	Archived *bool  // Defaults to both
}

// head is the stored form of a Pipeline.
type head struct {
	Description string `json:"description,omitempty"`
	Version     int    `json:"version"`
	Digest      string `json:"digest"` // of the newest version
	Steps       int    `json:"steps"`
	Draft       bool   `json:"draft,omitempty"`
	Archived    bool   `json:"archived,omitempty"`
	Deleting    bool   `json:"deleting,omitempty"` // its versions are being removed
	CreatedBy   string `json:"created_by,omitempty"`
	Role        string `json:"author_role,omitempty"` // of the newest version
}

func (h head) object(id, name string, revision int64) (store.Object, error) {
	body, err := json.Marshal(h)
	return store.Object{Kind: kindPipeline, ID: id, Name: name, Revision: revision, Body: body}, err
}

func (h head) pipeline(o *store.Object) *Pipeline {
	return &Pipeline{ID: o.ID, Name: o.Name, Description: h.Description, Version: h.Version, Steps: h.Steps, Draft: h.Draft,
		Archived: h.Archived, CreatedBy: h.CreatedBy, Revision: o.Revision, Created: o.Created, Updated: o.Updated}
}

func (v Version) object() (store.Object, error) {
	body, err := json.Marshal(v)
	return store.Object{Kind: kindVersion, ID: versionID(v.Pipeline, v.Version), Body: body}, err
}

// versionID sorts by number.
func versionID(id string, version int) string { return fmt.Sprintf("%s/%08d", id, version) }

// decode reads what this package has stored.
func decode[T any](o *store.Object) (T, error) {
	var v T
	if err := json.Unmarshal(o.Body, &v); err != nil {
		return v, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the stored %s %s cannot be read", o.Kind, o.ID), Err: err}
	}
	return v, nil
}

func notFound(format string, args ...any) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf(format, args...)}
}

// countSteps counts the steps of a document, those inside groups included.
func countSteps(steps []definition.Step) int {
	n := len(steps)
	for i := range steps {
		n += countSteps(steps[i].Steps)
	}
	return n
}
