package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTemplatesOfFolders(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(folder, "ours.yaml", "# Ours.\nname: ours\n")
	write(folder, "hello.yml", "name: another hello\n")
	write(folder, ".hidden.yaml", "name: hidden\n")
	write(folder, "notes.txt", "no template")
	write(folder, "large.yaml", strings.Repeat("#", maxTemplateSize+1))
	write(other, "ours.yaml", "name: later\n")
	var warned []string
	all, problems, err := (&templates{[]string{folder, filepath.Join(folder, "absent"), other}, nil, func(msg string, _ ...any) { warned = append(warned, msg) }}).Templates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, x := range all {
		found[x.Name] += x.Origin + " " + x.Summary + "|" + x.Text
	}
	if found["ours"] != "folder Ours.|# Ours.\nname: ours\n" || found["hello"] != "folder |name: another hello\n" || found["etl"] == "" || found["hidden"] != "" || found["notes"] != "" || found["large"] != "" {
		t.Errorf("the templates are %q", found)
	}
	if len(warned) != 2 || len(problems) != 2 || !strings.HasSuffix(problems[0].Source, "large.yaml") || !strings.HasSuffix(problems[1].Source, "absent") {
		t.Errorf("warnings: %q, problems: %v", warned, problems)
	}
}
