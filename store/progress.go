package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
)

// The statuses of a project's progress. Other names that CheckStatus accepts are stored as they are.
const (
	ProjectInitializing = "INITIALIZING" // created
	ProjectCrawling     = "CRAWLING"     // its items are being discovered: total is not final, so it does not finish
	ProjectProcessing   = "PROCESSING"   // total is known
	ProjectDone         = "DONE"         // finished; only a reset leaves it
)

// JobCompleted is the kind of the outbox entry of a finished project. Its body is ProjectEvent.
const JobCompleted = "job.completed"

// Count is what a commit adds to the progress of a project.
type Count struct {
	Project string
	// Done counts processed items, the failed ones included; Errors those of them that failed.
	Done, Errors int64
}

// ProjectState is how far a project is, as everybody sees it.
type ProjectState struct {
	Project string `json:"project_id"`
	Status  string `json:"status"`
	Total   int64  `json:"total"` // 0: not known yet
	// Done and Errors are all that were counted, the counts of other programs on a state server included.
	Done   int64 `json:"done"`
	Errors int64 `json:"errors"`
}

// ProjectProgress is how far a project is.
type ProjectProgress struct {
	ProjectState
	// OtherDone and OtherErrors are the counts of other programs on a state server.
	OtherDone, OtherErrors int64
	Rev                    int64  // raised by each change of Status or Total
	Epoch                  int64  // raised by each reset
	Event                  string // id of the event that its finish will have, or has
	Touched                time.Time
	Completed              time.Time // zero: not finished
}

// ProgressChange is one change of a project's progress. All its fields take effect together, then the finish line is
// tested: a project finishes once between resets, when its status is not CRAWLING and Done has reached a Total above 0, or when
// Status is set to DONE.
type ProgressChange struct {
	Count
	// Key names the item: of the changes with one key only the first counts. "": every change counts.
	Key string
	// Total and Status replace those of a project that has not finished. nil and "" leave them.
	Total  *int64
	Status string
	// Discovered lets a project that is INITIALIZING or CRAWLING go on to PROCESSING.
	Discovered bool
	// OtherDone and OtherErrors raise the counts of other programs to at least these; ignored unless Epoch is the project's.
	OtherDone, OtherErrors, Epoch int64
	// Reset begins anew: INITIALIZING, all counts and keys of items forgotten, another epoch and event. It comes before the
	// rest of the change.
	Reset bool
}

// ProgressResult is a project after a change.
type ProgressResult struct {
	ProjectProgress // zero: there is no such project
	// Finished is true for the change that finished it. Its outbox entry was stored in the same transaction.
	Finished bool
	// Repeated is true for an item whose key has been counted already.
	Repeated bool
}

// Projects keeps the progress of projects.
type Projects interface {
	// CreateProgress stores the progress of a new project durably; fresh is false when there is one: it is left alone.
	CreateProgress(ctx context.Context, project string) (fresh bool, err error)
	// DeleteProgress deletes the progress of a project with the keys of its items, durably; one that is not there is no
	// error. A project that is created again under the name begins with another epoch.
	DeleteProgress(ctx context.Context, project string) error
	// ChangeProgress makes changes in their order, all in one durable transaction with the outbox entries (JobCompleted) of
	// the projects that they finish. It gives a result for each change; unknown projects are not created. After
	// CodeUnavailable they may have been made or not: only items with keys can be sent again.
	ChangeProgress(ctx context.Context, changes []ProgressChange) ([]ProgressResult, error)
	// Progress reads projects, in order of their names. Unknown ones are left out.
	Progress(ctx context.Context, projects []string) ([]ProjectProgress, error)
	// OpenProgress lists projects that have not finished and were changed since a time, in order of their names, from after
	// one. Limit defaults to 500, at most 10,000.
	OpenProgress(ctx context.Context, since time.Time, after string, limit int) ([]ProjectProgress, error)
}

// ProjectEvent is the body of the outbox entry of a finished project. ID tells deliveries of one event from another.
type ProjectEvent struct {
	ID      string        `json:"event_id"`
	At      string        `json:"timestamp"`
	Payload ProjectCounts `json:"payload"`
}

// ProjectCounts are the counts of a finished project.
type ProjectCounts struct {
	Project string `json:"project_id"`
	Total   int64  `json:"total"`
	Done    int64  `json:"done"`
	Errors  int64  `json:"errors"`
}

// eventTime is RFC 3339 in µs.
const eventTime = "2006-01-02T15:04:05.000000Z"

const maxProjectName = 200

// CheckProject refuses what is no name of a project with CodeInvalid: it has 1 to 200 bytes of UTF-8 without control
// characters.
func CheckProject(name string) error {
	if name == "" || len(name) > maxProjectName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a project id has 1 to 200 bytes of UTF-8 without control characters"}
	}
	return nil
}

// Check refuses a change with CodeInvalid: negative counts, more errors than items, or a status that is not of capital letters and
// underscores.
func (c *ProgressChange) Check() error {
	if err := CheckProject(c.Project); err != nil {
		return err
	}
	problem := ""
	switch {
	case c.Done < 0 || c.Errors < 0 || c.Done > maxCount || c.Errors > c.Done:
		problem = "done is 0 to 1,000,000,000,000, and errors is at most done"
	case c.Total != nil && (*c.Total < 0 || *c.Total > maxCount):
		problem = "total is 0 to 1,000,000,000,000"
	case len(c.Status) > 32 || strings.Trim(c.Status, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "":
		problem = "a status has at most 32 capital letters and underscores"
	case len(c.Key) > maxProjectName:
		problem = "an item key has at most 200 bytes"
	default:
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "progress of project " + c.Project + ": " + problem}
}

// maxCount bounds what one change counts, so that sums stay far from their limit.
const maxCount = 1_000_000_000_000

// NewProjectProgress is that of a project that begins.
func NewProjectProgress(project string, at time.Time) ProjectProgress {
	return ProjectProgress{ProjectState: ProjectState{Project: project, Status: ProjectInitializing}, Rev: 1, Event: uuid.NewString(), Touched: at}
}

// Apply makes a change. Finished: it has brought the project over the finish line.
func (p *ProjectProgress) Apply(c *ProgressChange, at time.Time) (finished bool) {
	before := *p
	if c.Reset {
		*p = NewProjectProgress(p.Project, at)
		p.Rev, p.Epoch = before.Rev+1, before.Epoch+1
	}
	p.Touched = at
	p.Done += c.Done
	p.Errors += c.Errors
	if c.Epoch == p.Epoch {
		p.raise(c.OtherDone, c.OtherErrors)
	}
	if !p.Completed.IsZero() {
		return false
	}
	if c.Total != nil {
		p.Total = *c.Total
	}
	p.Status = cmp.Or(c.Status, p.Status)
	if c.Discovered && (p.Status == ProjectInitializing || p.Status == ProjectCrawling) {
		p.Status = ProjectProcessing
	}
	finished = p.Status == ProjectDone || p.Total > 0 && p.Done >= p.Total && p.Status != ProjectCrawling
	if finished {
		p.Status, p.Completed = ProjectDone, at
	}
	if !c.Reset && (p.Status != before.Status || p.Total != before.Total) {
		p.Rev++
	}
	return finished
}

// raise raises the counts of other programs.
func (p *ProjectProgress) raise(done, errors int64) {
	done, errors = max(done, p.OtherDone), max(errors, p.OtherErrors)
	p.Done += done - p.OtherDone
	p.Errors += errors - p.OtherErrors
	p.OtherDone, p.OtherErrors = done, errors
}

// Finish is the event of a finished project.
func (p *ProjectProgress) Finish() ProjectEvent {
	return ProjectEvent{p.Event, p.Completed.UTC().Format(eventTime), ProjectCounts{p.Project, p.Total, p.Done, p.Errors}}
}

// Entry is the outbox entry of a finished project.
func (p *ProjectProgress) Entry() (Outgoing, error) {
	body, err := json.Marshal(p.Finish())
	return Outgoing{Kind: JobCompleted, Body: body, At: p.Completed}, err
}

// ApplyChanges makes changes to the projects that are there, for stores. first says whether the change is the first with its
// item key; it is asked once for each change of a known project that has one, in order, after reset has been told of a reset.
func ApplyChanges(there map[string]*ProjectProgress, changes []ProgressChange, at time.Time, reset func(project string) error, first func(c *ProgressChange) (bool, error)) (out []ProgressResult, entries []Outgoing, err error) {
	out = make([]ProgressResult, len(changes))
	for i := range changes {
		c := &changes[i]
		p := there[c.Project]
		if p == nil {
			continue
		}
		if c.Reset {
			if err := reset(c.Project); err != nil {
				return nil, nil, err
			}
		}
		counts := true
		if c.Key != "" {
			if counts, err = first(c); err != nil {
				return nil, nil, err
			}
		}
		if counts && p.Apply(c, at) {
			e, err := p.Entry()
			if err != nil {
				return nil, nil, err
			}
			out[i].Finished = true
			entries = append(entries, e)
		}
		out[i].ProjectProgress, out[i].Repeated = *p, !counts
	}
	return out, entries, nil
}

// CheckChanges refuses a list with a change that Check refuses.
func CheckChanges(changes []ProgressChange) error {
	for i := range changes {
		if err := changes[i].Check(); err != nil {
			return err
		}
	}
	return nil
}

// ChangedProjects are the names of the projects of some changes, sorted.
func ChangedProjects(changes []ProgressChange) []string {
	names := make([]string, len(changes))
	for i := range changes {
		names[i] = changes[i].Project
	}
	slices.Sort(names)
	return slices.Compact(names)
}
