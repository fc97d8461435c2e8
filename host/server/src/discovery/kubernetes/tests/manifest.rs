//! The manifests that operators begin with: an API server would take them, and the picker goes by them.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::*;
use crate::config::{Config, Listener};
use crate::serve::Doors;

const MANIFESTS: &str = include_str!("../../../../deploy/kubernetes.yaml");

/// An `InferencePool` of `inference.networking.k8s.io/v1`: all fields that its definition has, but the status.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct InferencePool {
    api_version: String,
    kind: String,
    metadata: serde_json::Value,
    spec: Spec,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    selector: Selector,
    target_ports: Vec<Port>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<String>,
    endpoint_picker_ref: EndpointPickerRef,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Port {
    number: u16,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct EndpointPickerRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    name: String,
    /// Required with a service.
    port: Port,
    failure_mode: FailureMode,
}

#[derive(Debug, Deserialize, Serialize)]
enum FailureMode {
    FailOpen,
    FailClose,
}

fn documents() -> Vec<serde_json::Value> {
    let each = serde_yaml::Deserializer::from_str(MANIFESTS);
    each.map(|one| serde_json::Value::deserialize(one).unwrap()).collect()
}

/// The only one of a kind. Fields that the kind doesn't have would get lost on the way.
fn the<T: DeserializeOwned + Serialize>(kind: &str) -> T {
    let all = documents();
    let its: Vec<_> = all.iter().filter(|one| one["kind"] == kind).collect();
    let [one] = its[..] else { panic!("{} of {kind}", its.len()) };
    let read: T = serde_json::from_value(one.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), one, "fields that a {kind} doesn't have");
    read
}

fn name(metadata: &kube::api::ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap()
}

/// What the picker reads, with the variables that its container has.
fn configuration() -> Config {
    let pod = the::<Deployment>("Deployment").spec.unwrap().template.spec.unwrap();
    let variables = pod.containers[0].env.iter().flatten();
    let strings: BTreeMap<String, String> =
        variables.map(|one| (one.name.clone(), "a-token-of-the-secret".to_owned())).collect();
    let text = &the::<ConfigMap>("ConfigMap").data.unwrap()["pointsman.yaml"];
    let base = Path::new("/etc/pointsman");
    Config::from_bytes("pointsman.yaml", text.as_bytes(), base, &strings).unwrap()
}

#[test]
fn each_manifest_has_the_fields_of_its_kind_alone() {
    let kinds: Vec<_> =
        documents().iter().map(|one| format!("{} {}", one["apiVersion"], one["kind"])).collect();
    let of = |kind: &str| kinds.iter().filter(|one| one.replace('"', "") == kind).count();
    the::<InferencePool>("InferencePool");
    the::<ServiceAccount>("ServiceAccount");
    the::<Role>("Role");
    the::<RoleBinding>("RoleBinding");
    the::<ConfigMap>("ConfigMap");
    the::<Service>("Service");
    the::<Deployment>("Deployment");
    assert_eq!(kinds.len(), 7, "each is looked at here");
    for kind in [
        "inference.networking.k8s.io/v1 InferencePool",
        "v1 ServiceAccount",
        "rbac.authorization.k8s.io/v1 Role",
        "rbac.authorization.k8s.io/v1 RoleBinding",
        "v1 ConfigMap",
        "v1 Service",
        "apps/v1 Deployment",
    ] {
        assert_eq!(of(kind), 1, "{kind} in {kinds:?}");
    }
}

#[test]
fn the_manifests_lead_from_the_pool_to_the_picker_that_follows_it() {
    let pool: InferencePool = the("InferencePool");
    let config = configuration();
    let followed = config.discovery.kubernetes.as_ref().unwrap();
    assert_eq!(pool.metadata["name"], *followed.pool);
    assert_eq!(pool.api_version, followed.api_version);
    let service: Service = the("Service");
    let picker = &pool.spec.endpoint_picker_ref;
    assert_eq!(picker.name, name(&service.metadata));
    assert!(picker.kind.is_none() && picker.group.is_none(), "a service is what it is left out");
    let service = service.spec.unwrap();
    let [door] = &service.ports.unwrap()[..] else { panic!("one port") };
    assert_eq!(door.port, i32::from(picker.port.number));
    let listener = config.epp.as_ref().unwrap().listener.address;
    assert_eq!((door.port, door.target_port.as_ref()), (i32::from(listener.port()), None));
    let deployment = the::<Deployment>("Deployment").spec.unwrap();
    let labels = deployment.template.metadata.unwrap().labels;
    assert_eq!((&service.selector, &deployment.selector.match_labels), (&labels, &labels));
    let selected = Some(&pool.spec.selector.match_labels);
    assert_ne!(labels.as_ref(), selected, "the picker isn't one of its engines");
}

#[test]
fn the_manifests_let_the_picker_read_what_it_follows() {
    let account: ServiceAccount = the("ServiceAccount");
    let pod = the::<Deployment>("Deployment").spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.service_account_name.as_deref(), account.metadata.name.as_deref());
    let binding: RoleBinding = the("RoleBinding");
    let role: Role = the("Role");
    assert_eq!(binding.role_ref.name, name(&role.metadata));
    let subject = &binding.subjects.as_ref().unwrap()[0];
    assert_eq!(subject.name, name(&account.metadata));
    // An API server refuses accounts without; it has to be the one that all is applied to.
    let namespace = subject.namespace.as_deref().unwrap();
    assert!(MANIFESTS.contains(&format!("kubectl apply --namespace {namespace} -f")));
    let rules = role.rules.unwrap();
    for (group, plural) in [("", "pods"), ("inference.networking.k8s.io", "inferencepools")] {
        for verb in ["list", "watch"] {
            let has = |list: &Option<Vec<String>>, word: &str| {
                list.iter().flatten().any(|one| one == word)
            };
            let allows = rules.iter().any(|rule| {
                has(&rule.api_groups, group)
                    && has(&rule.resources, plural)
                    && rule.verbs.iter().any(|one| one == verb)
            });
            assert!(allows, "{verb} {plural} of {group:?}");
        }
    }
}

#[test]
fn the_container_mounts_its_file_is_probed_at_its_doors_and_has_time_to_drain() {
    let config = configuration();
    let pod = the::<Deployment>("Deployment").spec.unwrap().template.spec.unwrap();
    let [container] = &pod.containers[..] else { panic!("one container") };
    let map: ConfigMap = the("ConfigMap");
    let [volume] = &pod.volumes.as_ref().unwrap()[..] else { panic!("one volume") };
    assert_eq!(volume.config_map.as_ref().unwrap().name, name(&map.metadata));
    let [mount] = &container.volume_mounts.as_ref().unwrap()[..] else { panic!("one mount") };
    assert_eq!(mount.name, volume.name);
    let file = format!("{}/pointsman.yaml", mount.mount_path);
    assert!(container.args.as_ref().unwrap().contains(&file));
    let ports: BTreeMap<_, _> = container
        .ports
        .iter()
        .flatten()
        .map(|port| (port.name.clone().unwrap(), port.container_port))
        .collect();
    let (grpc, admin) = (config.epp.unwrap().listener.address.port(), config.admin.address.port());
    assert_eq!((ports["grpc"], ports["admin"]), (i32::from(grpc), i32::from(admin)));
    let ready = container.readiness_probe.as_ref().unwrap().grpc.as_ref().unwrap();
    assert_eq!(
        (ready.port, ready.service.as_deref()),
        (ports["grpc"], Some("inference-extension"))
    );
    let lives = container.liveness_probe.as_ref().unwrap().http_get.as_ref().unwrap();
    assert_eq!(lives.path.as_deref(), Some("/health"));
    assert_eq!(serde_json::to_value(&lives.port).unwrap(), "admin");
    let grace = pod.termination_grace_period_seconds.unwrap();
    assert!(grace > i64::try_from(config.drain_timeout.as_secs()).unwrap());
}

#[tokio::test]
async fn with_the_manifests_the_pools_pods_become_workers() {
    let api = ApiServer::start().await;
    let pool = documents().into_iter().find(|one| one["kind"] == "InferencePool").unwrap();
    api.pool(Some(pool["spec"].clone()));
    api.pod("a", Some(pod("10.0.0.1", true)));
    let mut config = configuration();
    assert!(!config.admin.tokens.is_empty(), "on a pod's network it starts with a token alone");
    let anywhere = Listener::on(([127, 0, 0, 1], 0).into());
    config.admin = anywhere.clone();
    config.epp.as_mut().unwrap().listener = anywhere;
    let kubernetes = config.discovery.kubernetes.as_mut().unwrap();
    (kubernetes.server, kubernetes.namespace) = (Some(api.url()), Some("serving".to_owned()));
    let doors = Doors { public: false, admin: true };
    let server = Server::start_with(config, None, doors).await.unwrap();
    becomes(&server, &["http://10.0.0.1:8000"]).await;
    let workers = server.app().dispatcher.router().workers();
    assert_eq!(&*workers[0].spec.partition.model, "my-model");
    server.shutdown().await;
}
