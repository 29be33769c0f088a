package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger"
)

// Kind is a kind of objects that the API serves: Options.Kinds lists them. Of makes one.
type Kind interface {
	// Work is the kind's background loop: its name and its function, which runs until ctx ends; nil: none.
	Work() (name string, run func(ctx context.Context) error)
	rows() []operation // operations that are not in the table
	serve(s *server)
}

// Resource stores the objects of a kind: D is the request that creates one, V the request that changes one, M the
// answer to creating one, S the shown object, and F the list filter (query parameters, with resource.Page in it). A
// pointer to D or V may have Texts (free texts to check for secrets) and Starts (the targets it starts).
type Resource[D, V, M, S, F any] interface {
	Kind() resource.Kind
	Create(ctx context.Context, draft *D, actor string) (*M, error)
	Get(ctx context.Context, idOrName string) (*S, error)
	List(ctx context.Context, f *F) ([]S, error)
	Update(ctx context.Context, id string, revision int64, edit func(*V) error) (*S, error)
	Delete(ctx context.Context, id string, revision int64) error
}

// Of is a kind whose objects are created, listed, shown, changed and deleted.
func Of[D, V, M, S, F any](r Resource[D, V, M, S, F]) Kind {
	return &kindOf[D, V, M, S, F]{Resource: r}
}

// kindOf serves a Resource.
type kindOf[D, V, M, S, F any] struct {
	Resource[D, V, M, S, F]
	kind   resource.Kind
	server *server
	// shown adds fields that only the API knows. Optional.
	shown func(*S)
	// listed adds to the objects of a page. Defaults to nothing.
	listed func(ctx context.Context, in *F, rows []S) error
	// saved adds to the answer to a new or changed object. Defaults to nothing.
	saved func(ctx context.Context, of *S)
	// made adds to the answer to a new object. Defaults to nothing.
	made func(ctx context.Context, m *M)
	// completed completes a new object (*D), or a changed one (*V), before it is stored. Defaults to nothing.
	completed func(ctx context.Context, of any) error
	// id is the schema of an id or name in a path. Defaults to any of at most 255 characters.
	id *huma.Schema
}

// Page is a page of a list; Next is the cursor of the next one. In JSON its Items have the name of the list.
type Page[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next_cursor,omitempty"`

	name string
}

// MarshalJSON writes the items under the name of the list.
func (p Page[T]) MarshalJSON() ([]byte, error) {
	if p.Items == nil {
		p.Items = []T{}
	}
	out := map[string]any{p.name: p.Items}
	if p.Next != "" {
		out["next_cursor"] = p.Next
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads a page of any list.
func (p *Page[T]) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for name, member := range members {
		to := any(&p.Items)
		if name == "next_cursor" {
			to = &p.Next
		} else {
			p.name = name
		}
		if err := json.Unmarshal(member, to); err != nil {
			return err
		}
	}
	return nil
}

// All is the filter of kinds whose objects are listed at once.
type All struct{}

// Change is a change of a T, as JSON: members that are left out stay as they are.
type Change[T any] struct{ raw json.RawMessage }

// UnmarshalJSON keeps the change.
func (c *Change[T]) UnmarshalJSON(raw []byte) error {
	c.raw = slices.Clone(raw)
	return nil
}

// Fields are the members of a change that a client sends.
type Fields map[string]any

// Shapes of operations on one object. The id is in the path, under the name that the kind gives it.
type (
	bodyInput[T any] struct{ Body T }
	seenInput        struct {
		IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
	}
	changeInput[V any] struct {
		IfMatch string `header:"If-Match" maxLength:"2000"`
		Body    Change[V]
	}
	deleteInput struct {
		IfMatch string `header:"If-Match" maxLength:"2000"`
	}
)

// Work implements Kind: the Run of the resource, if it has one.
func (k *kindOf[D, V, M, S, F]) Work() (name string, run func(ctx context.Context) error) {
	if r, ok := k.Resource.(interface{ Run(context.Context) error }); ok {
		run = r.Run
	}
	return k.Kind().Noun + "s", run
}

func (k *kindOf[D, V, M, S, F]) serve(s *server) {
	k.server, k.kind = s, k.Kind()
	once := sync.OnceFunc(k.shapes)
	shapes, one := func(*huma.Operation) { once() }, s.named(k.kind.Param)
	if k.id != nil {
		k.id.PrecomputeMessages() // once: requests share it
		s.ids[k.kind.Param] = k.id
	}
	serveVerb(k, "create", k.create, shapes)
	serveVerb(k, "list", k.list, shapes)
	serveVerb(k, "get", k.get, shapes, one)
	serveVerb(k, "update", k.update, shapes, one)
	serveVerb(k, "delete", k.delete, one)
}

// has reports whether the table gives the kind an operation.
func (k *kindOf[D, V, M, S, F]) has(verb string) bool {
	return k.server.ops[k.kind.Name+"."+verb] != nil
}

// serveVerb serves an operation of a kind, if the kind has it.
func serveVerb[I, O, D, V, M, S, F any](k *kindOf[D, V, M, S, F], verb string, fn func(context.Context, *I) (*O, error), adjust ...func(*huma.Operation)) {
	if k.has(verb) {
		handle(k.server, k.kind.Name+"."+verb, fn, adjust...)
	}
}

// rows are the operations of a kind that the table does not know.
func (k *kindOf[D, V, M, S, F]) rows() []operation {
	kind := k.Kind()
	all, one := prefix+"/"+kind.Path, prefix+"/"+kind.Path+"/{"+kind.Param+"}"
	return []operation{
		{kind.Name + ".create", "POST", all, access.Editor, changes | creates, "Creates one " + kind.Noun},
		{kind.Name + ".list", "GET", all, access.Viewer, 0, "Lists " + kind.Noun + "s"},
		{kind.Name + ".get", "GET", one, access.Viewer, 0, "Shows one " + kind.Noun},
		{kind.Name + ".update", "PUT", one, access.Editor, changes, "Changes one " + kind.Noun},
		{kind.Name + ".delete", "DELETE", one, access.Editor, changes, "Deletes one " + kind.Noun + "; executions stay"},
	}
}

func (k *kindOf[D, V, M, S, F]) create(ctx context.Context, in *bodyInput[D]) (*made[M], error) {
	var d D
	if err := k.server.edit(ctx, &d, callOf(ctx).body); err != nil {
		return nil, err
	}
	if err := k.complete(ctx, &d); err != nil {
		return nil, err
	}
	m, err := k.Create(ctx, &d, access.Of(ctx).Actor())
	if err != nil {
		return nil, err
	}
	status := any(m).(interface{ Shown() *S }).Shown()
	id, revision := identity(status)
	callOf(ctx).object = id
	k.show(status)
	if k.saved != nil {
		k.saved(ctx, status)
	}
	if k.made != nil {
		k.made(ctx, m)
	}
	return &made[M]{Status: http.StatusCreated, Location: prefix + "/" + k.kind.Path + "/" + id, ETag: etag(revision), Body: *m}, nil
}

func (k *kindOf[D, V, M, S, F]) complete(ctx context.Context, of any) error {
	if k.completed == nil {
		return nil
	}
	return k.completed(ctx, of)
}

// identity is the id and the revision of an object that is shown.
func identity(status any) (id string, revision int64) {
	return status.(interface{ Identity() string }).Identity(), status.(interface{ ETag() int64 }).ETag()
}

func (k *kindOf[D, V, M, S, F]) list(ctx context.Context, in *F) (*answer[Page[S]], error) {
	paged, ok := any(in).(interface{ Paging() *resource.Page })
	if !ok {
		rows, err := k.List(ctx, in)
		return reply(Page[S]{Items: rows, name: k.kind.List}, err)
	}
	p := paged.Paging()
	after, err := cursorOf(k.kind.List, p.Cursor)
	if err != nil {
		return nil, err
	}
	limit := p.Limit
	p.Cursor, p.Limit = after, limit+1
	rows, err := k.List(ctx, in)
	if err != nil {
		return nil, err
	}
	rows, next := page(rows, limit, func(of *S) string {
		if at, ok := any(of).(interface{ Place() string }); ok { // its list is in another order
			return at.Place()
		}
		id, _ := identity(of)
		return id
	})
	for i := range rows {
		k.show(&rows[i])
	}
	if k.listed != nil {
		if err := k.listed(ctx, in, rows); err != nil {
			return nil, err
		}
	}
	return reply(Page[S]{Items: rows, Next: cursorTo(k.kind.List, next), name: k.kind.List}, nil)
}

// found is the object that the path names.
func (k *kindOf[D, V, M, S, F]) found(ctx context.Context) (of *S, id string, revision int64, err error) {
	named, err := k.server.nameIn(ctx, k.kind.Param)
	if err != nil {
		return nil, "", 0, err
	}
	if of, err = k.Get(ctx, named); err == nil {
		id, revision = identity(of)
	}
	return of, id, revision, err
}

func (k *kindOf[D, V, M, S, F]) get(ctx context.Context, in *seenInput) (*tagged[S], error) {
	of, _, revision, err := k.found(ctx)
	if err != nil {
		return nil, err
	}
	if unchanged(in.IfNoneMatch, revision) {
		return nil, notModified(revision)
	}
	k.show(of)
	return &tagged[S]{etag(revision), *of}, nil
}

func (k *kindOf[D, V, M, S, F]) update(ctx context.Context, in *changeInput[V]) (*tagged[S], error) {
	of, id, _, err := k.found(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = id
	of, err = change(in.IfMatch, of, func(of *S) int64 { _, revision := identity(of); return revision }, func(revision int64) (*S, error) {
		return k.Update(ctx, id, revision, func(v *V) error {
			if err := k.server.edit(ctx, v, in.Body.raw); err != nil {
				return err
			}
			return k.complete(ctx, v)
		})
	}, func() (*S, error) { return k.Get(ctx, id) })
	if err != nil {
		return nil, err
	}
	_, revision := identity(of)
	k.show(of)
	if k.saved != nil {
		k.saved(ctx, of)
	}
	return &tagged[S]{etag(revision), *of}, nil
}

func (k *kindOf[D, V, M, S, F]) delete(ctx context.Context, in *deleteInput) (*struct{}, error) {
	_, id, revision, err := k.found(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = id
	return remove(in.IfMatch, revision, func(revision int64) error { return k.Delete(ctx, id, revision) })
}

// show hides an object's secrets and adds fields that only the API knows.
func (k *kindOf[D, V, M, S, F]) show(of *S) {
	k.server.mask(of)
	if k.shown != nil {
		k.shown(of)
	}
}

// texts is implemented by types with free texts.
type texts interface {
	Texts() map[string]*resource.Object
}

// starts is implemented by types that name a target: their own or, where job is not nil, another job's.
type starts interface {
	Starts() (target **trigger.Target, job *resource.Ref)
}

// mask hides an object's secrets. Shared values are copied, not changed.
func (s *server) mask(of any) {
	if t, ok := of.(texts); ok {
		for _, o := range t.Texts() {
			*o = s.shownObject(*o)
		}
	}
	if t, ok := of.(starts); ok {
		if target, _ := t.Starts(); *target != nil {
			shown := **target
			shown.Params, shown.Authored = s.shownObject(shown.Params), trigger.Authored{}
			*target = &shown
		}
	}
	if t, ok := of.(interface{ Sign(trigger.Authored) }); ok {
		t.Sign(trigger.Authored{})
	}
	if t, ok := of.(interface{ Errors() *resource.Ref }); ok {
		*t.Errors() = Ref(s.text("", string(*t.Errors())))
	}
}

// edit applies a change, as JSON, to an object: omitted members stay as they are. Texts are replaced as a whole, and
// may hold no secret that they did not hold before; a target is checked as trigger.Target.Changed says.
func (s *server) edit(ctx context.Context, of any, raw []byte) error {
	by := trigger.Authored{Role: access.Of(ctx).Role.String(), Author: access.Of(ctx).Actor()}
	written, started := func() error { return nil }, func() error { return nil }
	if t, ok := of.(texts); ok {
		written = s.editTexts(of, t, by)
	}
	if t, ok := of.(starts); ok {
		started = s.editTarget(ctx, t, by)
	}
	keep := func() {}
	if r, ok := of.(interface{ Reset() func() }); ok {
		keep = r.Reset()
	}
	if err := unmarshal(raw, of); err != nil {
		return stepwell.Invalid("", "the body cannot be read: %s", err)
	}
	err := written()
	if keep(); err != nil {
		return err
	}
	return started()
}

func (s *server) editTexts(of any, t texts, by trigger.Authored) (done func() error) {
	was := map[string]Object{}
	for place, o := range t.Texts() {
		was[place], *o = *o, nil
	}
	return func() (err error) {
		for place, o := range t.Texts() {
			if *o == nil {
				*o = was[place]
				continue
			}
			if *o, err = s.written(place, *o, was[place]); err != nil {
				return err
			}
			if signed, ok := of.(interface{ Sign(trigger.Authored) }); ok {
				signed.Sign(by)
			}
		}
		return nil
	}
}

func (s *server) editTarget(ctx context.Context, t starts, by trigger.Authored) (done func() error) {
	target, job := t.Starts()
	if job == nil {
		job = new(Ref)
	}
	was, before := *target, *job
	*target, *job = nil, ""
	return func() (err error) {
		given := *target
		switch {
		case given == nil && *job == "":
			*target, *job = was, before
		case given != nil:
			*target, err = s.changedTarget(ctx, given, was, by)
		}
		return err
	}
}

// changedTarget returns the target that replaces another.
func (s *server) changedTarget(ctx context.Context, given, was *trigger.Target, by trigger.Authored) (_ *trigger.Target, err error) {
	var stored Object
	if was != nil {
		stored = was.Params
	}
	if given.Params, err = s.written("callback.params", given.Params, stored); err != nil {
		return nil, err
	}
	out, err := given.Changed(was, by)
	if err != nil {
		return nil, err
	}
	if callOf(ctx).note("starts", out.Action+out.Workflow); out.Action == "" {
		return out, nil
	}
	return out, s.o.Pipelines.Allowed(out.Role, out.Action)
}

// named describes the part of a path that names an object.
func (s *server) named(param string) func(*huma.Operation) {
	return func(op *huma.Operation) {
		id := s.idSchema(param)
		op.Parameters = append(op.Parameters, &huma.Param{Name: param, In: "path", Required: true, Description: id.Description, Schema: id})
	}
}

// idSchema is what the name of an object in a path has to look like.
func (s *server) idSchema(param string) *huma.Schema {
	if id := s.ids[param]; id != nil {
		return id
	}
	most := 255
	id := &huma.Schema{Type: "string", MaxLength: &most, Description: "Its id, or its name."}
	id.PrecomputeMessages()
	return id
}

// nameIn is the id or name in the path of a request.
func (s *server) nameIn(ctx context.Context, param string) (string, error) {
	name, id, result := callOf(ctx).request.PathValue(param), s.idSchema(param), &huma.ValidateResult{}
	path := huma.NewPathBuffer(nil, 0)
	path.Push("path")
	path.Push(param)
	if huma.Validate(s.api.OpenAPI().Components.Schemas, id, path, huma.ModeReadFromServer, name, result); len(result.Errors) > 0 {
		return "", huma.NewError(http.StatusUnprocessableEntity, "validation failed", result.Errors...)
	}
	return name, nil
}

// shapes names the schemas of a kind by its noun, and applies the tags of its types: hidden is internal, shown:"always"
// is in every answer, create:"never" and change:"never" cannot be given then.
func (k *kindOf[D, V, M, S, F]) shapes() {
	s := k.server
	s.shapeTargets()
	noun := camel(k.kind.Noun)
	draft, shown, first := reflect.TypeFor[D](), reflect.TypeFor[S](), reflect.TypeFor[M]()
	s.names[shown] = noun
	answers := []reflect.Type{shown}
	schema := func(t reflect.Type) *huma.Schema { return s.api.OpenAPI().Components.Schemas.Schema(t, false, "") }
	if k.has("create") {
		s.names[draft] = "New" + noun
		if _, same := s.names[first]; !same {
			s.names[first] = noun + "Made"
		}
		without(schema(draft), append(fieldsWith(draft, "hidden"), fieldsWith(draft, "create")...))
		answers = append(answers, first)
	}
	for _, t := range answers {
		answered := schema(t)
		without(answered, fieldsWith(t, "hidden"))
		for _, name := range fieldsWith(t, "shown") {
			if !slices.Contains(answered.Required, name) {
				answered.Required = append(answered.Required, name)
			}
		}
	}
	if k.has("update") {
		s.names[reflect.TypeFor[Change[V]]()] = noun + "Change"
		t := reflect.TypeFor[V]()
		changed := schema(reflect.TypeFor[Change[V]]())
		*changed = *huma.SchemaFromType(s.api.OpenAPI().Components.Schemas, t)
		changed.Required = nil
		without(changed, append(fieldsWith(t, "hidden"), fieldsWith(t, "change")...))
	}
	listed[S](s, noun+"List", k.kind.List)(nil)
}

// listed names the schema of a page of Ts, and its items as JSON has them.
func listed[T any](s *server, name, items string) func(*huma.Operation) {
	return func(*huma.Operation) {
		s.names[reflect.TypeFor[Page[T]]()] = name
		page := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Page[T]](), false, "")
		page.Properties[items], page.Required = page.Properties["items"], []string{items}
		without(page, []string{"items"})
	}
}

// hides removes internal fields from the schema of a T.
func hides[T any](s *server) func(*huma.Operation) {
	return func(*huma.Operation) {
		t := reflect.TypeFor[T]()
		without(s.api.OpenAPI().Components.Schemas.Schema(t, false, ""), fieldsWith(t, "hidden"))
	}
}

// shapeTargets gives the schemas of targets and timings examples, and removes internal fields.
func (s *server) shapeTargets() {
	schemas := s.api.OpenAPI().Components.Schemas
	hides[trigger.Target](s)(nil)
	schemas.Schema(reflect.TypeFor[trigger.Target](), false, "").Examples = []any{map[string]any{"type": "action", "action_type": "util.log", "params": map[string]any{"message": "Hello"}}}
	schemas.Schema(reflect.TypeFor[trigger.Timing](), false, "").Examples = []any{map[string]any{"type": "cron", "expression": "0 9 * * 1-5", "timezone": "America/New_York"}, map[string]any{"type": "interval", "expression": "@every 30m"}}
}

func camel(words string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(words) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// without takes properties out of a schema.
func without(s *huma.Schema, names []string) {
	for _, name := range names {
		delete(s.Properties, name)
	}
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return slices.Contains(names, name) })
	s.PrecomputeMessages()
}

// fieldsWith are the JSON names of the fields of a struct that have a tag.
func fieldsWith(t reflect.Type, tag string) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if _, tagged := f.Tag.Lookup(tag); tagged {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
