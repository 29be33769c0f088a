package store

import (
	"fmt"

	"github.com/stepwell/stepwell"
)

// The kinds of sums of usage (Used).
const (
	UsageOfLesson  = "lesson"
	UsageOfProject = "project"
	UsageOfVersion = "version" // of a pipeline: its id is VersionID
)

// Used is what a commit adds to a sum of usage.
type Used struct {
	Kind, ID string
	stepwell.Spending
}

// VersionID names the version of a stored pipeline in sums of usage.
func VersionID(workflow string, version int) string { return fmt.Sprintf("%s@%d", workflow, version) }

// Used returns what attempts of an execution have spent, for each sum that it belongs to.
func (o *Origin) Used(s stepwell.Spending) (out []Used) {
	if s.Resources = nil; s.None() { // the sums are those of models
		return nil
	}
	version := ""
	if o.Workflow != "" && o.WorkflowVersion > 0 {
		version = VersionID(o.Workflow, o.WorkflowVersion)
	}
	for _, key := range [][2]string{{UsageOfLesson, o.Lesson}, {UsageOfProject, o.Project}, {UsageOfVersion, version}} {
		if key[1] != "" {
			out = append(out, Used{key[0], key[1], s})
		}
	}
	return out
}
