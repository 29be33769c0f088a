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
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// The kinds of objects.
const (
	kindPipeline = "pipeline"
	kindVersion  = "pipeline_version"
	// KindPartition is what is known of a partition, under the pipeline's id and a slash. They go with the pipeline.
	KindPartition = "partition"
)

// Making is the partition that an execution has made, or tried to.
type Making = conductor.Making

// Pipeline is a stored pipeline.
type Pipeline struct {
	ID          string       `json:"pipeline_id" doc:"UUID. It is the workflow_id of what it is started with."`
	Name        string       `json:"name" doc:"Unique among stored pipelines."`
	Description string       `json:"description"`
	Version     int          `json:"version" doc:"The newest one."`
	Active      int          `json:"active_version" doc:"The one that is started where no version is named: by requests, schedules, webhooks, event triggers and steps."`
	Steps       int          `json:"step_count"`
	Draft       bool         `json:"draft" doc:"The newest version has problems and cannot be started."`
	Archived    bool         `json:"archived" doc:"It takes no new versions and is not started."`
	CreatedBy   resource.Ref `json:"created_by"`
	resource.Meta
	Document string            `json:"document,omitempty" doc:"The newest version's text, as it was given. Shown for one pipeline."`
	Problems []resource.Detail `json:"problems,omitzero" nullable:"false" doc:"Of a document that was stored now: warnings, and for a draft the errors."`
}

// Identity is the id.
func (p *Pipeline) Identity() string { return p.ID }

// Shown is the pipeline itself: a new one is shown as any other.
func (p *Pipeline) Shown() *Pipeline { return p }

// Version is one version of a stored pipeline. It never changes, but for Status and Active, which the pipeline knows.
type Version struct {
	ID       string        `json:"pipeline_version_id,omitempty" doc:"The pipeline's id, a colon and the number of the version."`
	Pipeline string        `json:"pipeline_id"`
	Version  int           `json:"version"` // from 1 without gaps
	Name     string        `json:"name"`    // in the document
	Digest   string        `json:"digest" doc:"SHA-256 of the document, in hexadecimal."`
	Steps    int           `json:"step_count"`
	Draft    bool          `json:"draft"`
	Note     string        `json:"note"`
	Author   resource.Ref  `json:"author"`
	Role     string        `json:"author_role,omitempty" hidden:"true"` // of the author, when it was stored: decides what its steps may do
	Created  resource.Time `json:"created_at"`
	Document string        `json:"document,omitempty" doc:"As it was given; left out of lists."`
	Status   string        `json:"status" enum:"active,archived" doc:"What is archived is not started any more."`
	Active   bool          `json:"active" doc:"It is started where no version is named."`
	Revision int64         `json:"-"` // of the pipeline, for the ETag
}

// The statuses of a version.
const (
	StatusActive   = "active"
	StatusArchived = "archived"
)

// Draft is a pipeline to store, under the name that its document gives; or a change of one, whose omitted fields stay as
// they are.
type Draft struct {
	Document Document `json:"document,omitempty" required:"true"`
	Draft    bool     `json:"draft,omitempty" doc:"Store it although it has problems, as long as it has a name."`
	Note     string   `json:"note,omitempty" maxLength:"1000" doc:"Why, for the list of versions."`
	Archived *bool    `json:"archived,omitempty" create:"never" doc:"Takes it out of use, or back into it."`
	Activate *bool    `json:"activate,omitempty" create:"never" doc:"false leaves the version active that is. Otherwise a new one becomes the active one, unless it has problems."`
	Author   string   `json:"-"`
	Role     string   `json:"-"` // of the author
}

// Document is a pipeline: its text (YAML or JSON), in JSON also the object itself.
type Document []byte

// UnmarshalJSON reads a string or an object.
func (d *Document) UnmarshalJSON(b []byte) error {
	*d = nil
	switch b = bytes.TrimSpace(b); {
	case string(b) == "null":
		return nil
	case len(b) > 0 && b[0] == '"':
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*d = Document(text)
		return nil
	case len(b) > 0 && b[0] == '{':
		*d = bytes.Clone(b)
		return nil
	}
	return fmt.Errorf("a pipeline is a text or an object")
}

// MarshalJSON writes an object as it is, and any other text as a string.
func (d Document) MarshalJSON() ([]byte, error) {
	if t := bytes.TrimSpace(d); len(t) > 0 && t[0] == '{' && json.Valid(t) {
		return t, nil
	}
	return json.Marshal(string(d))
}

// Filter selects stored pipelines, in order of id.
type Filter struct {
	Archived string `query:"archived" enum:"true,false,any" default:"false"` // "" is any
	resource.Page
}

// head is the stored form of a Pipeline.
type head struct {
	Description string `json:"description,omitempty"`
	Version     int    `json:"version"`
	Digest      string `json:"digest"` // of the newest version
	Steps       int    `json:"steps"`
	Draft       bool   `json:"draft,omitempty"`
	Archived    bool   `json:"archived,omitempty"`
	Active      int    `json:"active,omitempty"`            // 0: the newest version
	Retired     []int  `json:"archived_versions,omitempty"` // in order
	Deleting    bool   `json:"deleting,omitempty"`          // its versions are being removed
	CreatedBy   string `json:"created_by,omitempty"`
	Role        string `json:"author_role,omitempty"` // of the newest version
}

func (h head) object(id, name string, revision int64) (store.Object, error) {
	body, err := json.Marshal(h)
	return store.Object{Kind: kindPipeline, ID: id, Name: name, Revision: revision, Body: body}, err
}

// active is the version that is started where none is named.
func (h head) active() int { return cmp.Or(h.Active, h.Version) }

// retired reports whether a version is archived.
func (h head) retired(version int) bool {
	_, found := slices.BinarySearch(h.Retired, version)
	return found
}

func (h head) pipeline(o *store.Object) *Pipeline {
	return &Pipeline{ID: o.ID, Name: o.Name, Description: h.Description, Version: h.Version, Active: h.active(), Steps: h.Steps, Draft: h.Draft,
		Archived: h.Archived, CreatedBy: resource.Ref(h.CreatedBy), Meta: resource.MetaOf(o)}
}

// stored is pipeline with the problems of the document that was stored.
func (h head) stored(o *store.Object, problems definition.Problems) *Pipeline {
	p := h.pipeline(o)
	p.Problems = Details(problems)
	return p
}

// object is the stored form: what may change is in the head.
func (v Version) object() (store.Object, error) {
	body, err := json.Marshal(struct {
		Version
		ID     string `json:"pipeline_version_id,omitempty"`
		Status string `json:"status,omitempty"`
		Active bool   `json:"active,omitempty"`
	}{Version: v})
	return store.Object{Kind: kindVersion, ID: versionID(v.Pipeline, v.Version), Body: body}, err
}

// versionID sorts by number.
func versionID(id string, version int) string { return fmt.Sprintf("%s/%08d", id, version) }

// decode reads a stored value of this package.
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
