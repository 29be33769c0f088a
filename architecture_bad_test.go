package stepwell_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// soundModule is a small module that breaks no rule; the cases below break one each.
func soundModule() map[string]string {
	return map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n",
		"ARCHITECTURE.md": strings.Join([]string{"# Picture", "", "```layers",
			"# the words", "pure .:", "pure engine: . example.org/lib/yaml",
			"store: . engine   # durable", "store/storetest: store", "cmd/m: store", "kind/*: . store", "all: kind/*", "scenarios:", "```", ""}, "\n"),
		"m.go":         "// Package m is the words.\npackage m\n",
		"m_test.go":    "package m_test\n\nimport _ \"os\"\n",
		"engine/e.go":  "// Package engine decides.\npackage engine\n\nimport (\n\t_ \"embed\"\n\t\"net/url\"\n\t\"time\"\n\n\t\"example.org/lib/yaml/limits\"\n\t\"example.org/m\"\n)\n\nvar _, _ = time.Unix, -1\n",
		"engine/e2.go": "package engine\n",
		"store/s.go":   "// Package store keeps.\npackage store\n\nimport (\n\t\"context\"\n\n\t\"example.org/lib/sql\"\n\t\"example.org/m\"\n\t\"example.org/m/engine\"\n)\n",
		"store/s_test.go": "package store_test\n\nimport (\n\t\"os\"\n\n\t\"example.org/m/cmd/anything\"\n" +
			"\t\"example.org/m/store/storetest\"\n)\n",
		"store/storetest/suite.go": "// Package storetest defines the store.\npackage storetest\n\nimport \"example.org/m/store\"\n",
		"cmd/m/main.go":            "// Command m runs.\npackage main\n\nimport \"example.org/m/store\"\n",
		"all/all.go":               "// Package all has all kinds.\npackage all\n\nimport _ \"example.org/m/kind/a\"\n",
		"kind/a/a.go":              "// Package a is one of them.\npackage a\n\nimport \"example.org/m\"\n",
		"kind/b/b.go":              "// Package b is another.\npackage b\n",
		"scenarios/all_test.go":    "// Package scenarios has tests only.\npackage scenarios\n",
		// passed over
		"testdata/bad.go":     "not go",
		".hidden/bad.go":      "not go",
		"_old/bad.go":         "not go",
		"test/tools/go.mod":   "module other\n",
		"test/tools/tools.go": "package tools\n",
	}
}

// TestArchitectureSound proves that the cases of TestArchitectureBad fail for their own reason.
func TestArchitectureSound(t *testing.T) {
	wantFindings(t, soundModule())
}

func TestArchitectureBad(t *testing.T) {
	swap := func(file, old, new string) func(map[string]string) {
		return func(m map[string]string) {
			if !strings.Contains(m[file], old) {
				panic(file + " lacks " + old)
			}
			m[file] = strings.Replace(m[file], old, new, 1)
		}
	}
	set := func(file, text string) func(map[string]string) {
		return func(m map[string]string) { m[file] = text }
	}
	drop := func(file string) func(map[string]string) {
		return func(m map[string]string) { delete(m, file) }
	}
	const doc = "ARCHITECTURE.md"
	long := strings.Repeat("// line\n", codeLines)
	longTest := strings.Repeat("// line\n", testLines)
	for name, c := range map[string]struct {
		change func(map[string]string)
		want   []string // every finding, in order
	}{
		// the block
		"no document":      {drop(doc), []string{".: holds Go", "ARCHITECTURE.md: has 0", "ARCHITECTURE.md: open", "all: holds Go", "cmd/m: holds Go", "engine: holds Go", "kind/a: holds Go", "kind/b: holds Go", "scenarios: holds Go", "store/storetest: holds Go", "store: holds Go"}},
		"two blocks":       {swap(doc, "# Picture", "```layers\n```"), []string{"ARCHITECTURE.md: has 2 layers blocks"}},
		"open block":       {swap(doc, "scenarios:\n```", "scenarios:\n"), []string{"ARCHITECTURE.md: has 1 layers blocks (closed: false)"}},
		"malformed line":   {swap(doc, "```layers", "```layers\npure very engine: ."), []string{`ARCHITECTURE.md:4: "pure very engine: ." is not of the form`}},
		"no colon":         {swap(doc, "```layers", "```layers\nqueue"), []string{`ARCHITECTURE.md:4: "queue" is not of the form`}},
		"line twice":       {swap(doc, "store: .", "pure .:\nstore: ."), []string{"ARCHITECTURE.md:7: package . is listed twice"}},
		"import twice":     {swap(doc, "store: .", "store: . ."), []string{"ARCHITECTURE.md:7: . is named twice"}},
		"one of many":      {set("kind/b/b.go", "// Package b is another.\npackage b\n\nimport \"example.org/m/engine\"\n"), []string{"kind/b/b.go:4: kind/* may not import engine"}},
		"package unlisted": {set("queue/q.go", "// Package queue waits.\npackage queue\n"), []string{"queue: holds Go files but has no line"}},
		"folder missing":   {drop("cmd/m/main.go"), []string{"ARCHITECTURE.md:9: package cmd/m is listed but its folder holds no Go files"}},
		"upward permission": {func(m map[string]string) {
			swap(doc, "store: . engine   # durable\nstore/storetest: store", "store/storetest: store\nstore: . engine")(m)
		}, []string{"ARCHITECTURE.md:7: store/storetest may not import store, which is not on a line above"}},
		"pure on impure": {func(m map[string]string) {
			swap(doc, "pure .:", ".:")(m)
		}, []string{"ARCHITECTURE.md:6: engine is pure and may not import ., which is not"}},
		"impure lists a module": {swap(doc, "store: . engine", "store: . engine example.org/lib/sql"), []string{
			"ARCHITECTURE.md:7: example.org/lib/sql: only pure packages", "ARCHITECTURE.md:7: store does not import example.org/lib/sql"}},

		// imports
		"forbidden import":       {swap("cmd/m/main.go", "import ", "import _ \"example.org/m/engine\"\nimport "), []string{"cmd/m/main.go:4: cmd/m may not import engine (ARCHITECTURE.md:9)"}},
		"import of the root":     {swap("cmd/m/main.go", "import ", "import _ \"example.org/m\"\nimport "), []string{"cmd/m/main.go:4: cmd/m may not import ."}},
		"idle permission":        {swap(doc, "cmd/m: store", "cmd/m: store engine"), []string{"ARCHITECTURE.md:9: cmd/m does not import engine"}},
		"foreign module, pure":   {set("engine/e2.go", "package engine\n\nimport \"example.org/lib/json\"\n"), []string{"engine/e2.go:3: engine may not import example.org/lib/json"}},
		"similar foreign module": {set("engine/e2.go", "package engine\n\nimport \"example.org/lib/yaml2\"\n"), []string{"engine/e2.go:3: engine may not import example.org/lib/yaml2"}},
		"below a permission": {func(m map[string]string) {
			m["store/disk/d.go"] = "// Package disk keeps.\npackage disk\n"
			swap(doc, "cmd/m: store", "store/disk:\ncmd/m: store")(m)
			swap("cmd/m/main.go", "import ", "import _ \"example.org/m/store/disk\"\nimport ")(m)
		}, []string{"cmd/m/main.go:4: cmd/m may not import store/disk"}},
		"build tag hides nothing": {set("cmd/m/w.go", "//go:build windows\n\npackage main\n\nimport _ \"example.org/m/engine\"\n"), []string{"cmd/m/w.go:5: cmd/m may not import engine"}},
		"test support in code": {func(m map[string]string) {
			swap(doc, "cmd/m: store", "cmd/m: store store/storetest")(m)
			swap("cmd/m/main.go", "import ", "import _ \"example.org/m/store/storetest\"\nimport ")(m)
		}, []string{"cmd/m/main.go:4: imports store/storetest, which is for tests alone"}},

		// packages and files
		"no package comment": {swap("store/s.go", "// Package store keeps.\n", ""), []string{`store: has no package comment ("Package store …")`}},
		"comment of another": {swap("store/s.go", "Package store", "Package shop"), []string{"store: has no package comment"}},
		"comment apart":      {swap("store/s.go", "keeps.\n", "keeps.\n\n"), []string{"store: has no package comment"}},
		"comment only in tests": {func(m map[string]string) {
			m["store/s_test.go"] = "// Package store keeps.\n" + m["store/s_test.go"]
			swap("store/s.go", "// Package store keeps.\n", "")(m)
		}, []string{"store: has no package comment"}},
		"directive, no comment": {swap("cmd/m/main.go", "// Command m runs.", "//go:generate true"), []string{"cmd/m: has no package comment"}},
		"drawer": {func(m map[string]string) {
			m["engine/util/u.go"] = "// Package util x.\npackage util\n"
			swap(doc, "store: .", "engine/util:\nstore: .")(m)
		}, []string{`engine/util: the name "util" is a drawer`}},
		"drawer above and in the clause": {func(m map[string]string) {
			m["common/text/u.go"] = "// Package texthelpers x.\npackage texthelpers\n"
			swap(doc, "store: .", "common/text:\nstore: .")(m)
		}, []string{`common/text: the name "common"`, `common/text: the name "texthelpers"`}},
		"long file": {set("engine/e2.go", "package engine\n"+long), []string{"engine/e2.go: has 601 lines, more than 600"}},
		"long test": {set("m_test.go", "package m_test\n"+longTest), []string{"m_test.go: has 801 lines, more than 800"}},
		"not Go":    {set("engine/e2.go", "package engine\n\nfunc {"), []string{"engine/e2.go: does not parse"}},
		"no go.mod": {drop("go.mod"), []string{"ARCHITECTURE.md:6: engine does not import .", "ARCHITECTURE.md:7: store does not import .", "ARCHITECTURE.md:7: store does not import engine",
			"ARCHITECTURE.md:8: store/storetest does not import store", "ARCHITECTURE.md:9: cmd/m does not import store", "engine/e.go:10: engine may not import example.org/m", "go.mod: open"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := soundModule()
			c.change(files)
			wantFindings(t, files, c.want...)
		})
	}
}

// TestArchitectureGenerated exempts generated files from the cap, by the standard header alone.
func TestArchitectureGenerated(t *testing.T) {
	files := soundModule()
	long := "\npackage engine\n" + strings.Repeat("// line\n", codeLines)
	files["engine/e2.go"] = "// Code generated by stringer; DO NOT EDIT.\n" + long
	wantFindings(t, files)
	files["engine/e2.go"] = "// Code generated by hand, edit freely.\n" + long
	wantFindings(t, files, "engine/e2.go: has 603 lines")
}

// TestArchitectureUnreadable reports a file that cannot be read instead of passing over it.
func TestArchitectureUnreadable(t *testing.T) {
	fsys := mapFS(soundModule())
	fsys["engine/e3.go"] = &fstest.MapFile{Data: []byte("nowhere.go"), Mode: fs.ModeSymlink}
	got := checkArchitecture(fsys)
	if !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, "reading the module: ") }) {
		t.Errorf("findings: %q", got)
	}
}

// wantFindings compares all findings about the files, in order, by their beginnings.
func wantFindings(t *testing.T, files map[string]string, want ...string) {
	t.Helper()
	if got := checkArchitecture(mapFS(files)); !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("findings:\n\t%s\nwant, by their beginnings:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func mapFS(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}
