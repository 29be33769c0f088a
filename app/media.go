package app

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/upload"
)

// Uploads bound the media of lessons.
type Uploads struct {
	// MaxBytes is how large a file may be. Defaults to that of upload.Options.
	MaxBytes int64
	// Expire is how long an unfinished upload waits for its next bytes. Defaults to that of upload.Options.
	Expire time.Duration
	// CacheBytes bounds the local files that steps read. Defaults to that of upload.CacheOptions.
	CacheBytes int64
}

// buildLessons makes the lessons and their uploads.
func (s *Server) buildLessons() {
	lo := project.LessonOptions{Objects: s.Store, Projects: s.projects, Unfinished: s.unfinished,
		Deleted: func(ctx context.Context, lesson string) error { return s.uploads.Forget(ctx, lesson) }}
	uo := upload.Options{Objects: s.Store, Blobs: s.Store.Blobs(), MaxBytes: s.o.Uploads.MaxBytes, Expire: s.o.Uploads.Expire, Fetch: s.client, Unfinished: s.unfinished, Now: s.o.Now, Log: s.log}
	if s.listener != nil { // else a command, whose user may read what it names
		lo.Address, uo.Admit = s.URL, s.touch
	}
	s.lessons = project.NewLessons(lo)
	uo.Lessons = s.lessons
	s.uploads = upload.New(uo)
}

// unfinished reports whether a lesson has executions that have not ended.
func (s *Server) unfinished(ctx context.Context, lesson string) (bool, error) {
	list, err := s.Store.Executions(ctx, store.Filter{Lesson: lesson, Limit: 1,
		Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionPending, stepwell.ExecutionRunning, stepwell.ExecutionPaused, stepwell.ExecutionCancelling}})
	return len(list) > 0, err
}
