package org.apache.iceberg.rest;

/** The kit's tests of tables, with namespaces in namespaces, which its own settings cannot switch on. */
public class NestedNamespaceTests extends RESTCompatibilityKitCatalogTests {
  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }
}
