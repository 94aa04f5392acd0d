// Renders a Helm chart as `helm template` does, for machines without Helm: Debian has none, but Go's text/template and
// sprig, which Helm is made of. The functions that Helm adds are below; `lookup` finds nothing, as in `helm template`.
//
// usage: render [--values] CHART RELEASE NAMESPACE [VALUES.yaml ...]
//
//	Prints the manifests, or with --values the merged values as JSON (for values.schema.json).
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig" // Debian has version 3 under this path
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

func read(path string) values {
	text, err := os.ReadFile(path)
	check(err)
	out := values{}
	check(yaml.Unmarshal(text, &out))
	return out
}

// merge puts `over` onto `base`: maps are merged, null removes a key.
func merge(base, over values) values {
	for key, value := range over {
		below, isMap := base[key].(values)
		above, both := value.(values)
		switch {
		case value == nil:
			delete(base, key)
		case isMap && both:
			base[key] = merge(below, above)
		default:
			base[key] = value
		}
	}
	return base
}

func toYaml(value interface{}) string {
	text, err := yaml.Marshal(value)
	check(err)
	return strings.TrimSuffix(string(text), "\n")
}

// files is .Files of a template. Helm, too, follows a symbolic link in a chart's folder.
type files string

func (folder files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(string(folder), name))
	if err != nil {
		return ""
	}
	return string(text)
}

func helmFunctions(t *template.Template) template.FuncMap {
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["toYaml"] = toYaml
	functions["fromYaml"] = func(text string) values {
		out := values{}
		if err := yaml.Unmarshal([]byte(text), &out); err != nil {
			out["Error"] = err.Error()
		}
		return out
	}
	functions["toJson"] = func(value interface{}) string {
		text, err := json.Marshal(value)
		check(err)
		return string(text)
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := t.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	functions["fail"] = func(message string) (string, error) { return "", errors.New(message) }
	functions["lookup"] = func(string, string, string, string) values { return values{} }
	return functions
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	words := os.Args[1:]
	onlyValues := words[0] == "--values"
	if onlyValues {
		words = words[1:]
	}
	folder, release, namespace := words[0], words[1], words[2]
	all := read(filepath.Join(folder, "values.yaml"))
	for _, file := range words[3:] {
		all = merge(all, read(file))
	}
	if onlyValues {
		text, err := json.Marshal(all)
		check(err)
		fmt.Println(string(text))
		return
	}
	// Chart.yaml's keys, as Helm names them: appVersion is .Chart.AppVersion.
	chart := values{}
	for key, value := range read(filepath.Join(folder, "Chart.yaml")) {
		chart[strings.ToUpper(key[:1])+key[1:]] = value
	}
	data := values{
		"Values":  all,
		"Chart":   chart,
		"Files":   files(folder),
		"Release": values{"Name": release, "Namespace": namespace, "Service": "Helm", "IsInstall": true, "Revision": 1},
	}
	templates, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	check(err)
	sort.Strings(templates)
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(helmFunctions(root))
	for _, file := range templates {
		text, err := os.ReadFile(file)
		check(err)
		_, err = root.New(filepath.Base(file)).Parse(string(text))
		check(err)
	}
	var manifests bytes.Buffer // printed only if every template could be rendered
	for _, file := range templates {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		check(root.ExecuteTemplate(&out, name, data))
		// Helm replaces what an absent value prints, too.
		text := strings.ReplaceAll(out.String(), "<no value>", "")
		if name != "NOTES.txt" && strings.TrimSpace(text) != "" {
			fmt.Fprintf(&manifests, "---\n# Source: %s/templates/%s\n%s\n", chart["Name"], name, strings.TrimSpace(text))
		}
	}
	fmt.Print(manifests.String())
}
