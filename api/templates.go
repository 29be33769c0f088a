package api

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// Templates gives the pipelines to begin with, the default first. Its errors are about what was looked for, not about one template.
type Templates interface {
	Templates(ctx context.Context) ([]Template, []TemplateProblem, error)
}

// Template is a pipeline to begin with.
type Template struct {
	Name    string `json:"name"`
	Summary string `json:"summary" doc:"The first line of the file, where that is a comment."`
	Origin  string `json:"origin" enum:"built-in,folder,git" doc:"folder: a file in one of the folders of templates.folders in the settings. git: of one of the repositories of templates.git."`
	Source  string `json:"source,omitempty" doc:"The repository and the beginning of the commit, of one from git."`
	Text    string `json:"-"`
}

// TemplateList lists templates.
type TemplateList struct {
	Templates []Template        `json:"templates" nullable:"false"`
	Problems  []TemplateProblem `json:"problems" nullable:"false" doc:"Folders, files and repositories of the settings that could not be read. What was read of a repository before is still there."`
}

// TemplateProblem says why templates are missing, or old.
type TemplateProblem struct {
	Source  string `json:"source" doc:"The folder, file or repository."`
	Message string `json:"message"`
}

// TemplateDetail is a template with its text.
type TemplateDetail struct {
	Template
	Document   string              `json:"document" doc:"The text, with its comments."`
	Parameters []TemplateParameter `json:"parameters" nullable:"false" doc:"What the pipeline is told when it is started."`
	Problems   []Detail            `json:"problems" nullable:"false" doc:"Why the text cannot be read, or what is wrong with its parts."`
}

// TemplateParameter is a parameter of a template.
type TemplateParameter struct {
	Name        string    `json:"name"`
	Type        spec.Type `json:"type"`
	Description string    `json:"description"`
	Required    bool      `json:"required"`
	Default     any       `json:"default,omitempty"`
	Options     []string  `json:"options,omitempty" nullable:"false"`
}

func (s *server) templates() {
	handle(s, "template.list", s.listTemplates)
	handle(s, "template.get", s.getTemplate)
}

func (s *server) allTemplates(ctx context.Context) ([]Template, []TemplateProblem, error) {
	if s.o.Templates == nil {
		return []Template{}, nil, nil
	}
	return s.o.Templates.Templates(ctx)
}

func (s *server) listTemplates(ctx context.Context, _ *struct{}) (*answer[TemplateList], error) {
	all, problems, err := s.allTemplates(ctx)
	for i := range problems {
		problems[i].Source, problems[i].Message = s.text("", problems[i].Source), s.text("", problems[i].Message)
	}
	return reply(TemplateList{all, append([]TemplateProblem{}, problems...)}, err)
}

type templateName struct {
	Name string `path:"name" maxLength:"200"`
}

func (s *server) getTemplate(ctx context.Context, in *templateName) (*answer[TemplateDetail], error) {
	all, _, err := s.allTemplates(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range all {
		if t.Name == in.Name {
			return reply(detailOf(t), nil)
		}
		names = append(names, t.Name)
	}
	return nil, stepwell.Errorf(stepwell.CodeNotFound, spec.DidYouMean(in.Name, names), "there is no template %q", stepwell.Clip(in.Name, 80))
}

func detailOf(t Template) TemplateDetail {
	out := TemplateDetail{Template: t, Document: t.Text, Parameters: []TemplateParameter{}, Problems: []Detail{}}
	d, problems := definition.Parse([]byte(t.Text), definition.ParseOptions{Sent: true})
	for _, p := range problems {
		out.Problems = append(out.Problems, Detail(p))
	}
	if d == nil {
		return out
	}
	for i := range d.Parameters {
		p := &d.Parameters[i]
		shown := TemplateParameter{Name: p.Name, Type: p.Type, Description: p.Description, Required: p.Required, Options: p.Enum}
		if !p.Secret {
			shown.Default = p.Default
		}
		out.Parameters = append(out.Parameters, shown)
	}
	return out
}
