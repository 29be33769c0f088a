package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newLessonsCommand() *cobra.Command {
	r := &resource{path: "lessons", items: "lessons", what: "lesson",
		columns: []view.Column{{"ID", "id"}, {"PROJECT", "project_id"}, {"NAME", "name"}, {"TAG", "tag"}, {"MEDIA", "media.name"}, {"CREATED", "created_at"}},
		filters: []filter{{"project", "project_id", "only those of the `project`"}, {"tag", "tag", "only those with the `tag`"}, {"word", "word", "only those with this `word` in their name or tag"}}}
	fields := []filter{{"name", "name", "`text` that people call it"}, {"tag", "tag", "its `tag`"}}
	create := append([]filter{{"project", "project_id", "the `project` that it belongs to (required)"}}, fields...)
	return p.group("lessons", []string{"lesson"}, "Manage lessons and their media", "Manage lessons: each belongs to a project and has a media file, which pipelines process.",
		p.listing(r, "List the lessons"), p.showing(r, "Show a lesson"),
		p.sending("create ID", "Create a lesson", "POST", func([]string) string { return pathTo("lessons") }, &memberFlags{members: create, first: "id"}, "id", "Created lesson %s."),
		p.updating(r, "Change the name or the tag of a lesson", &memberFlags{members: fields}, "id", "Updated lesson %s."),
		p.newLessonUpload(),
		p.newUsage(r, "usage ID", "Show what models have used for a lesson"),
		p.deleting(r, "Delete a lesson and its media"))
}

func (p *program) newLessonUpload() *cobra.Command {
	var mediaType string
	c := &connection{lasts: true}
	cmd := p.askingOver(c, "upload ID FILE", "Upload the media of a lesson", func(ctx context.Context, q *request) error {
		one, err := p.upload(ctx, q.client, q.args[0], q.args[1], mediaType)
		if err != nil {
			return err
		}
		return p.answered(q.connection, one, "Lesson %s has %s: %d bytes of %s.", view.Printable(one.ID), view.Printable(one.Media.Name), one.Media.Bytes, one.Media.Type)
	})
	cmd.Long = "Upload a file as the media of a lesson. An upload that was interrupted continues where it was when the command\nis repeated. FILE may be an http or https address: the server fetches it."
	cmd.Flags().StringVar(&mediaType, "type", "", "media `type` of the file (default that of its name)")
	return cmd
}

// upload gives a lesson a file, or what is behind an address.
func (p *program) upload(ctx context.Context, c *client.Client, lesson, file, mediaType string) (_ *api.Lesson, err error) {
	if strings.HasPrefix(file, "https://") || strings.HasPrefix(file, "http://") {
		return c.SetMedia(ctx, lesson, api.MediaPlace{URL: file, Type: mediaType})
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, stepwell.Invalid("name a file", "%s cannot be read: %v", view.Printable(file), err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, stepwell.Invalid("name a file", "%s is not a regular file", view.Printable(file))
	}
	progress, end := p.counter()
	shown := int64(-1)
	one, err := c.Upload(ctx, lesson, &client.File{Name: filepath.Base(file), Type: mediaType, Bytes: info.Size(), Modified: info.ModTime(), Content: f}, func(sent int64) {
		if percent := sent * 100 / max(info.Size(), 1); progress != nil && percent != shown {
			shown = percent
			progress(int(sent>>20), int(info.Size()>>20))
		}
	})
	end()
	if err != nil && (ctx.Err() != nil || stepwell.CodeOf(err) == stepwell.CodeUnavailable) {
		fmt.Fprintf(p.err, "what has come is kept for a while: repeat the command to continue\n")
	}
	return one, err
}
