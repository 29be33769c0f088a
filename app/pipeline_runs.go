package app

import (
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/pipelinerun"
)

// buildRuns makes the runs of lessons.
func (s *Server) buildRuns() (err error) {
	o := pipelinerun.Options{Store: s.Store, Blobs: s.Store.Blobs(), Library: s.library, Lessons: s.lessons, Projects: s.projects, Control: s.control(), Reuser: s.Conductor, Redact: s.Secrets, Log: s.log}
	if s.node != nil {
		o.Follow = func(execution int64, notice func()) (stop func()) {
			return s.node.feeds.Follow(execution, func(feed.Notice) { notice() })
		}
	}
	s.runs, err = pipelinerun.New(o)
	return err
}
