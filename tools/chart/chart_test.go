// Package chart checks the Helm chart: it renders the templates with each documented set of values, and
// decodes the results strictly into the types of Kubernetes. It has the functions of Helm that the chart uses
// instead of Helm itself, whose packages take minutes to compile.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const dir = "../../deploy/helm/stoa"

// render returns the documents of the chart with the given values, as helm template does. A value is written as
// for --set.
func render(t *testing.T, set ...string) ([]string, error) {
	t.Helper()
	var values, chart map[string]any
	for name, into := range map[string]*map[string]any{"values.yaml": &values, "Chart.yaml": &chart} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, one := range set {
		path, value, _ := strings.Cut(one, "=")
		at, names := values, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			at, _ = at[name].(map[string]any)
		}
		last := names[len(names)-1]
		if _, known := at[last]; !known {
			t.Fatalf("values.yaml does not have %s", path)
		}
		at[last] = value
		if n, err := strconv.Atoi(value); err == nil {
			at[last] = n
		} else if b, err := strconv.ParseBool(value); err == nil {
			at[last] = b
		}
	}
	all := template.New("").Option("missingkey=zero")
	functions := template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := all.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"required": func(message string, v any) (any, error) {
			if v == nil || v == "" {
				return nil, errors.New(message)
			}
			return v, nil
		},
		"fail": func(message string) (string, error) { return "", errors.New(message) },
	}
	all.Funcs(sprig.TxtFuncMap()).Funcs(functions)
	files, err := filepath.Glob(filepath.Join(dir, "templates", "*"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all.New(filepath.Base(file)).Parse(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	data := map[string]any{
		"Values":  values,
		"Chart":   map[string]any{"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
		"Release": map[string]any{"Name": "stoa", "Namespace": "default", "Service": "Helm", "IsInstall": true},
	}
	var documents []string
	for _, file := range files {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, filepath.Base(file), data); err != nil {
			return nil, err
		}
		if strings.Contains(b.String(), "<no value>") {
			return nil, fmt.Errorf("%s prints a value that does not exist", file)
		}
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq(b.String(), "\n---\n") {
			if strings.TrimSpace(document) != "" {
				documents = append(documents, document)
			}
		}
	}
	return documents, nil
}

// decode decodes a document into its type. A member that the type lacks, or has twice, is an error.
func decode(document string) (kind string, object any, err error) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		return "", nil, err
	}
	kind = head.APIVersion + " " + head.Kind
	object = map[string]any{
		"apps/v1 Deployment": &appsv1.Deployment{}, "apps/v1 StatefulSet": &appsv1.StatefulSet{}, "batch/v1 Job": &batchv1.Job{},
		"v1 ConfigMap": &corev1.ConfigMap{}, "v1 Service": &corev1.Service{}, "networking.k8s.io/v1 Ingress": &networkingv1.Ingress{},
		"policy/v1 PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
	}[kind]
	if object == nil {
		return kind, nil, errors.New("add its type to this test")
	}
	return kind, object, yaml.UnmarshalStrict([]byte(document), object)
}

// documented returns the values of the command that docs/nodes.md has.
func documented(t *testing.T) (set []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(string(page), "helm install stoa")
	command, _, _ = strings.Cut(command, "\n\n")
	for _, m := range regexp.MustCompile(`--set (\S+)`).FindAllStringSubmatch(command, -1) {
		set = append(set, m[1])
	}
	if !found || len(set) < 4 {
		t.Fatalf("docs/nodes.md sets %q", set)
	}
	return set
}

func TestChartRenders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  []string
		want string // kinds, sorted by file
	}{
		"docs/nodes.md": {documented(t), "batch/v1 Job, v1 Service, policy/v1 PodDisruptionBudget, v1 ConfigMap, apps/v1 Deployment"},
		"SQLite":        {[]string{"existingSecret=stoa"}, "v1 Service, policy/v1 PodDisruptionBudget, v1 ConfigMap, apps/v1 StatefulSet"},
		"ingress": {
			[]string{"existingSecret=stoa", "ingress.enabled=true", "ingress.host=stoa.example.com", "ingress.tlsSecret=tls", "ingress.className=nginx", "persistence.storageClass=fast"},
			"v1 Service, policy/v1 PodDisruptionBudget, networking.k8s.io/v1 Ingress, v1 ConfigMap, apps/v1 StatefulSet",
		},
	} {
		documents, err := render(t, c.set...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var kinds []string
		for _, document := range documents {
			kind, object, err := decode(document)
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", name, kind, err, document)
				continue
			}
			kinds = append(kinds, kind)
			switch o := object.(type) {
			case *appsv1.Deployment:
				restricted(t, o.Spec.Template.Spec)
				selects(t, o.Spec.Selector.MatchLabels, o.Spec.Template.Labels)
			case *appsv1.StatefulSet:
				restricted(t, o.Spec.Template.Spec)
				selects(t, o.Spec.Selector.MatchLabels, o.Spec.Template.Labels)
			case *batchv1.Job:
				restricted(t, o.Spec.Template.Spec)
			}
		}
		if got := strings.Join(kinds, ", "); got != c.want {
			t.Errorf("%s renders %s, want %s", name, got, c.want)
		}
	}
}

// restricted checks a pod against the profile "restricted" of Kubernetes, and that each of its mounts has a volume.
func restricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if s := pod.SecurityContext; s == nil || !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod is not restricted: %+v", s)
	}
	volumes := map[string]bool{"data": true} // of a StatefulSet, from its claim
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
			t.Errorf("the container %s is not restricted: %+v", c.Name, s)
		}
		if c.Resources.Limits.Memory().IsZero() {
			t.Errorf("the container %s has no limit of memory", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("the container %s mounts %s, which is not a volume", c.Name, m.Name)
			}
		}
	}
}

// selects checks that a selector selects the pods of its own template.
func selects(t *testing.T, selector, labels map[string]string) {
	t.Helper()
	if len(selector) == 0 || !maps.Equal(selector, labels) {
		t.Errorf("the selector %v does not select pods with %v", selector, labels)
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	t.Parallel()
	for want, set := range map[string][]string{
		"existingSecret is required":       nil,
		"replicas above 1 need a database": {"existingSecret=stoa", "replicas=2"},
		"ingress.host is required":         {"existingSecret=stoa", "ingress.enabled=true"},
	} {
		if _, err := render(t, set...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", set, err, want)
		}
	}
}
